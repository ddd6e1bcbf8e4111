#!/bin/sh
# Reads {"text":"…"}: the input schema leaves no quotes in the text, so that `sed` is enough.
text=$(sed 's/^{"text":"//; s/"}$//')
printf '{"words": %d, "bytes": %d}\n' "$(printf '%s' "$text" | wc -w)" "$(printf '%s' "$text" | wc -c)"
