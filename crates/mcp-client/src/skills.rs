//! Skills of a server (SEP-2640, a draft): listed, asked for, and loaded when what is read is what the server had said.

mod verify;

use std::fmt;

use mcp_protocol::{
    ReadResourceParams, method,
    skills::{GetSkillParams, GetSkillResult, Skill, SkillFile},
};

use crate::{Call, Client, Error, List, connection::Request, error::Kind};

/// The skills extension (feature `skills`).
impl Client {
    /// The skills that the server lists. Nothing of them is read, and it may have more ([`Client::skill`]).
    pub fn list_skills(&self) -> List<Skill> {
        List::new(self.handle())
    }

    /// What a skill is, by the URI of its `SKILL.md`; also of one that is not listed. Nothing of it is read.
    pub fn skill(&self, uri: impl Into<String>) -> Call<Skill> {
        let request = Request::of::<method::GetSkill>(&GetSkillParams::new(uri));
        Call::with(self.handle(), request, |_, reply| reply.read::<GetSkillResult>().map(|result| result.skill))
    }

    /// Loads a skill: reads its `SKILL.md`, and no other file, and compares it with what the server had said of it.
    ///
    /// What a skill says is written by its server: it is no more to be trusted than what its tools say, and who reads it should
    /// be told where it comes from.
    ///
    /// # Errors
    /// [`Error::is_unverified`] when size, digest or front matter are others than in `skill`, or when that entry is against the
    /// rules or vouches for no files ([`Dynamic`](mcp_protocol::skills::SkillResources::Dynamic)); the server may have another
    /// version by now, which [`Client::skill`] tells. Else as for every [`Call`].
    pub async fn load_skill(&self, skill: Skill) -> Result<LoadedSkill, Error> {
        let own = verify::entry(&skill).map_err(Kind::Unverified)?;
        let bytes = read(self, own).await?;
        let (text, instructions_at) = verify::instructions(&skill, bytes).map_err(Kind::Unverified)?;
        Ok(LoadedSkill { client: self.clone(), skill, text, instructions_at })
    }
}

/// A skill whose `SKILL.md` was read, and is what the server had said ([`Client::load_skill`]).
pub struct LoadedSkill {
    client: Client,
    skill: Skill,
    text: String,
    instructions_at: usize,
}

impl LoadedSkill {
    /// What the server had said of it. An approval of a user is one of exactly these files.
    #[must_use]
    pub fn skill(&self) -> &Skill {
        &self.skill
    }

    /// The whole of its `SKILL.md`.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its `SKILL.md` without the front matter.
    #[must_use]
    pub fn instructions(&self) -> &str {
        &self.text[self.instructions_at..]
    }

    /// Its files.
    #[must_use]
    pub fn files(&self) -> &[SkillFile] {
        verify::files(&self.skill)
    }

    /// Reads one of its files, by its path from the skill's directory on (`references/style.md`), as the instructions name it,
    /// or by its URI. It is compared with what the server had said of it.
    ///
    /// # Errors
    /// [`Error::is_unverified`] when it is no file of the skill (nothing is sent then), or has another size or digest. Else as
    /// for every [`Call`].
    pub async fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        let file = verify::find(&self.skill, path).map_err(Kind::Unverified)?;
        read(&self.client, file).await
    }
}

impl fmt::Debug for LoadedSkill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedSkill").field("uri", &self.skill.uri).finish_non_exhaustive()
    }
}

/// Reads a file, which is not used before it was compared.
async fn read(client: &Client, file: &SkillFile) -> Result<Vec<u8>, Error> {
    let request = Request::of::<method::ReadResource>(&ReadResourceParams::new(&file.uri));
    // What is cached may be older than the entry.
    let result =
        Call::<mcp_protocol::ReadResourceResult>::new(client.handle(), request.map(|request| request.named(&file.uri)));
    let result = result.fresh().await?;
    let contents = result.contents.iter().find(|contents| contents.uri == file.uri);
    let contents = contents.ok_or_else(|| Error::invalid(format!("the contents of {} are not those", file.uri)))?;
    let bytes = contents.body.bytes().map_err(|error| Error::invalid(format!("{}: {error}", file.uri)))?;
    verify::bytes(file, &bytes).map_err(Kind::Unverified)?;
    Ok(bytes)
}
