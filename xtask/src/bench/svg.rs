//! A writer of SVG plots with the style of the pictures of this repository: readable on light and on dark background.

use std::fmt::Write as _;

/// The colors of the series, on light and on dark background.
const COLORS: [(&str, &str); 4] =
    [("#0969da", "#58a6ff"), ("#1a7f37", "#3fb950"), ("#bc4c00", "#f0883e"), ("#8250df", "#bc8cff")];

/// The part of a text that is at its point.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture of a fixed size.
pub(super) struct Picture {
    body: String,
    title: String,
    width: f64,
    height: f64,
}

impl Picture {
    pub(super) fn new(title: &str, width: f64, height: f64) -> Self {
        let mut picture = Self { body: String::new(), title: title.to_owned(), width, height };
        picture.text("name", width / 2.0, 28.0, Anchor::Middle, title);
        picture
    }

    /// A text of a class: `name`, `user` or `note`.
    pub(super) fn text(&mut self, class: &str, x: f64, y: f64, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        // A write to a string cannot fail.
        let _ = writeln!(
            self.body,
            "  <text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    /// A bar in the color of a series.
    pub(super) fn bar(&mut self, series: usize, x: f64, y: f64, width: f64, height: f64) {
        let series = series % COLORS.len();
        let _ = writeln!(
            self.body,
            "  <rect class=\"fill{series}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\"/>"
        );
    }

    /// A line of the class `grid` or `limit`.
    pub(super) fn rule(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(self.body, "  <path class=\"{class}\" d=\"M{x1:.1} {y1:.1} L{x2:.1} {y2:.1}\"/>");
    }

    /// A line through points, in the color of a series.
    pub(super) fn curve(&mut self, series: usize, points: &[(f64, f64)]) {
        let series = series % COLORS.len();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let _ = writeln!(self.body, "  <path class=\"line{series}\" d=\"M{}\"/>", path.join(" L"));
        for (x, y) in points {
            let _ = writeln!(self.body, "  <circle class=\"fill{series}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>");
        }
    }

    /// The document.
    pub(super) fn finish(self) -> String {
        let Self { body, title, width, height } = self;
        let title = escaped(&title);
        let (mut light, mut dark) = (String::new(), String::new());
        for (number, colors) in COLORS.iter().enumerate() {
            for (style, color) in [(&mut light, colors.0), (&mut dark, colors.1)] {
                let _ = writeln!(style, "      .fill{number} {{ fill: {color}; }}");
                let _ = writeln!(style, "      .line{number} {{ stroke: {color}; stroke-width: 2; fill: none; }}");
            }
        }
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-labelledby="title">
  <title id="title">{title}</title>
  <style>
      text {{ font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }}
      .name {{ font-size: 15px; font-weight: 600; }}
      .user {{ font-size: 13px; }}
      .note {{ font-size: 12px; fill: #57606a; paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round; }}
      .page {{ fill: #ffffff; stroke: #d0d7de; }}
      .grid {{ stroke: #d0d7de; stroke-width: 1; fill: none; }}
      .limit {{ stroke: #57606a; stroke-width: 1.5; stroke-dasharray: 5 4; fill: none; }}
{light}    @media (prefers-color-scheme: dark) {{
      text {{ fill: #e6edf3; }}
      .note {{ fill: #9da7b3; stroke: #0d1117; }}
      .page {{ fill: #0d1117; stroke: #30363d; }}
      .grid {{ stroke: #30363d; }}
      .limit {{ stroke: #9da7b3; }}
{dark}    }}
  </style>
  <rect class="page" x="0.5" y="0.5" width="{}" height="{}" rx="12"/>
{body}</svg>
"##,
            width - 1.0,
            height - 1.0
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_parts_and_both_backgrounds() {
        let mut picture = Picture::new("calls < 1 & more", 100.0, 50.0);
        picture.bar(5, 1.0, 2.0, 3.0, 4.0);
        picture.rule("grid", (0.0, 0.0), (1.0, 1.0));
        picture.curve(0, &[(1.0, 2.0), (3.0, 4.0)]);
        let text = picture.finish();
        for part in [
            "<title id=\"title\">calls &lt; 1 &amp; more</title>",
            "class=\"fill1\" x=\"1.0\"",
            "d=\"M0.0 0.0 L1.0 1.0\"",
            "class=\"line0\" d=\"M1.0 2.0 L3.0 4.0\"",
            "prefers-color-scheme: dark",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.ends_with("</svg>\n"));
    }
}
