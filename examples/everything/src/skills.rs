//! Skills: the directories under `skills/`, embedded into the program.

use mcp_server::{
    ServerBuilder,
    content::{Skill, Skills},
};

use crate::app::App;

macro_rules! file {
    ($path:literal) => {
        include_str!(concat!("../skills/demo/", $path))
    };
}

/// Registers the skills.
pub(crate) fn register(builder: ServerBuilder<App>) -> ServerBuilder<App> {
    let skills = Skills::new()
        .skill(
            Skill::new("demo/keep-notes", file!("keep-notes/SKILL.md"))
                .file("references/titles.md", file!("keep-notes/references/titles.md"))
                .file("templates/decision.md", file!("keep-notes/templates/decision.md"))
                .file("templates/meeting.md", file!("keep-notes/templates/meeting.md")),
        )
        .skill(Skill::new("demo/tell-cities", file!("tell-cities/SKILL.md")));
    builder.extension(skills)
}
