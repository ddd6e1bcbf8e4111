//! Colours of the output, for a terminal that has them.

use std::{
    io::{stderr, stdout},
    sync::OnceLock,
};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Effects};
use clap::ValueEnum;

/// The meaning of a text. It decides the colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Text without a colour.
    Plain,
    /// The header of a table, or a heading.
    Header,
    /// The name that a row is about.
    Name,
    /// A type of an argument or a resource.
    Type,
    /// An error, or a hint about destruction.
    Error,
    /// A warning.
    Warning,
    /// A success, or a hint about safety.
    Good,
    /// Text of less importance.
    Dim,
    /// Text that the user must see.
    Strong,
}

impl Style {
    pub(crate) fn ansi(self) -> anstyle::Style {
        let style = anstyle::Style::new();
        match self {
            Self::Plain => style,
            Self::Header => style.bold().underline(),
            Self::Name => style.bold(),
            Self::Type => AnsiColor::Cyan.on_default(),
            Self::Error => AnsiColor::Red.on_default().bold(),
            Self::Warning => AnsiColor::Yellow.on_default().bold(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Dim => style.dimmed(),
            Self::Strong => style | Effects::BOLD | Effects::INVERT,
        }
    }
}

/// The values of `--color`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// At a terminal that has colours, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Also in a pipe or a file.
    Always,
    /// Never.
    Never,
}

impl From<When> for clap::ColorChoice {
    fn from(when: When) -> Self {
        match when {
            When::Auto => Self::Auto,
            When::Always => Self::Always,
            When::Never => Self::Never,
        }
    }
}

/// Whether stdout and stderr have colours. Before [`install`], they have none.
static HAS_COLOURS: OnceLock<[bool; 2]> = OnceLock::new();

/// Returns the choice of the user.
pub(crate) fn choice() -> When {
    match ColorChoice::global() {
        ColorChoice::Always | ColorChoice::AlwaysAnsi => When::Always,
        ColorChoice::Never => When::Never,
        ColorChoice::Auto => When::Auto,
    }
}

/// Decides whether the output has colours. The first call counts.
pub(crate) fn install(when: When) {
    match when {
        When::Auto => ColorChoice::Auto,
        When::Always => ColorChoice::Always,
        When::Never => ColorChoice::Never,
    }
    .write_global();
    let has_colours = |choice| choice != ColorChoice::Never;
    // `AutoStream` reads NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM.
    let streams = [has_colours(AutoStream::choice(&stdout())), has_colours(AutoStream::choice(&stderr()))];
    let _ = HAS_COLOURS.set(streams);
}

/// Returns whether stdout has colours.
pub(crate) fn on_stdout() -> bool {
    HAS_COLOURS.get().is_some_and(|[stdout, _]| *stdout)
}

fn on_stderr() -> bool {
    HAS_COLOURS.get().is_some_and(|[_, stderr]| *stderr)
}

/// Returns a text for stdout in its colour. The caller makes text of a server printable first.
pub(crate) fn out(style: Style, text: &str) -> String {
    if on_stdout() { painted(style, text) } else { text.to_owned() }
}

/// Returns a text for stderr in its colour. The caller makes text of a server printable first.
pub(crate) fn err(style: Style, text: &str) -> String {
    if on_stderr() { painted(style, text) } else { text.to_owned() }
}

fn painted(style: Style, text: &str) -> String {
    if style == Style::Plain || text.is_empty() {
        return text.to_owned();
    }
    let style = style.ansi();
    format!("{style}{text}{style:#}")
}

/// Returns the value of `--color` on a command line, so that errors of the command line have the colours that it asks for.
pub(crate) fn requested(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> When {
    let mut arguments = arguments.into_iter().take_while(|argument| argument != "--");
    let mut when = When::Auto;
    while let Some(argument) = arguments.next() {
        let value = match argument.to_str() {
            Some("--color") => arguments.next().and_then(|value| value.into_string().ok()),
            Some(text) => text.strip_prefix("--color=").map(ToOwned::to_owned),
            None => None,
        };
        when = value.and_then(|value| When::from_str(&value, false).ok()).unwrap_or(when);
    }
    when
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_begin_and_end_around_the_text() {
        assert_eq!(painted(Style::Name, "add"), "\u{1b}[1madd\u{1b}[0m");
        assert_eq!(painted(Style::Plain, "add"), "add");
        assert_eq!(painted(Style::Error, ""), "");
    }

    #[test]
    fn finds_the_colour_option_before_the_command_line_is_parsed() {
        for (line, expected) in [
            ("mcp tools --color never", When::Never),
            ("mcp --color=always tools", When::Always),
            ("mcp tools -- server --color never", When::Auto),
            ("mcp tools --color sometimes", When::Auto),
            ("mcp --color", When::Auto),
        ] {
            assert_eq!(requested(line.split(' ').map(Into::into)), expected, "{line}");
        }
    }
}
