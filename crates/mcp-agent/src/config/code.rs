//! The stable codes of errors about configuration files.

use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal;)+) => {
        /// The stable code of an error about a server or its configuration. The folder `docs/doctor` has one page for each
        /// code.
        ///
        /// ```
        /// use mcp_agent::config::Code;
        ///
        /// assert_eq!(Code::UnsetVariable.as_str(), "unset-variable");
        /// assert!(Code::ALL.contains(&Code::UnsetVariable));
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Code {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the text of the code, which no later version changes.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

codes! {
    /// The file does not exist.
    FileMissing = "file-missing";
    /// The file cannot be read.
    FileUnreadable = "file-unreadable";
    /// The file is larger than the limit.
    FileTooLarge = "file-too-large";
    /// The file is not UTF-8.
    NotUtf8 = "not-utf8";
    /// The path of the file belongs to no format.
    UnknownFormat = "unknown-format";
    /// The text is not valid JSON, TOML or YAML.
    Syntax = "syntax";
    /// An object has a key twice.
    DuplicateKey = "duplicate-key";
    /// The file has no member with servers.
    MissingKey = "missing-key";
    /// A value has another type than the format requires.
    WrongType = "wrong-type";
    /// A member has almost the name `x-mcp`, or a member of `x-mcp` has almost the name of a known member.
    MisspelledMember = "misspelled-member";
    /// A member of an entry has no effect.
    UnknownMember = "unknown-member";
    /// The name of a server is not usable.
    InvalidName = "invalid-name";
    /// Two entries have the same name.
    DuplicateName = "duplicate-name";
    /// The file has more entries than permitted.
    TooManyServers = "too-many-servers";
    /// An entry has neither a command nor a URL.
    MissingEndpoint = "missing-endpoint";
    /// An entry has both a command and a URL, or members of the other kind.
    TwoEndpoints = "two-endpoints";
    /// A command or an argument is not usable.
    InvalidCommand = "invalid-command";
    /// A URL is not usable.
    InvalidUrl = "invalid-url";
    /// A header is not usable.
    InvalidHeader = "invalid-header";
    /// An environment variable of the server is not usable.
    InvalidEnvironment = "invalid-environment";
    /// A time is zero, negative or too long.
    InvalidTimeout = "invalid-timeout";
    /// A pattern for the names of tools is not usable.
    InvalidPattern = "invalid-pattern";
    /// The type of an entry is unknown.
    UnknownType = "unknown-type";
    /// An entry requires a feature that this library does not have.
    Unsupported = "unsupported";
    /// A variable is unset and has no default.
    UnsetVariable = "unset-variable";
    /// The text of a variable is incomplete or invalid.
    InvalidVariable = "invalid-variable";
    /// A text contains a command to run.
    CommandSubstitution = "command-substitution";
    /// A file that an entry names cannot be read.
    ReferencedFile = "referenced-file";
    /// A discovered project file defines a server that the user has not approved.
    NeedsApproval = "needs-approval";
    /// The user denied the server.
    Denied = "denied";
    /// No file or no entry defines a server.
    NoServers = "no-servers";
    /// The file defines no server with this name.
    UnknownServer = "unknown-server";
    /// The command of a server cannot be started, or ends at once.
    StartFailed = "start-failed";
    /// The server does not answer within its time limit.
    StartTimeout = "start-timeout";
    /// The server cannot be reached.
    Unreachable = "unreachable";
    /// The server requires a login or other credentials.
    NeedsLogin = "needs-login";
    /// The server answers with an error or with invalid data.
    ServerError = "server-error";
    /// The file already defines a server with this name.
    AlreadyInstalled = "already-installed";
    /// The program does not edit the file: it is a symbolic link.
    Symlink = "symlink";
    /// The program does not edit the file: it is read-only.
    ReadOnly = "read-only";
    /// The file cannot be written.
    WriteFailed = "write-failed";
    /// The text of the file does not permit the edit.
    NotEditable = "not-editable";
    /// The file changed while the program edited it.
    FileChanged = "file-changed";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
