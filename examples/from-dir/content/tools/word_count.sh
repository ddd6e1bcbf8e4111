#!/bin/sh
# Reads {"text":"…"}. The input schema rejects quotes in the text, so `sed` can extract it.
text=$(sed 's/^{"text":"//; s/"}$//')
printf '{"words": %d, "bytes": %d}\n' "$(printf '%s' "$text" | wc -w)" "$(printf '%s' "$text" | wc -c)"
