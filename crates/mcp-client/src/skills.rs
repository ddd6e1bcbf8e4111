//! Skills of a server (SEP-2640, a draft): listing them, and loading them with verification.

mod verify;

use std::fmt;

use mcp_protocol::{
    ReadResourceParams, method,
    skills::{GetSkillParams, GetSkillResult, Skill, SkillFile},
};

use crate::{Call, Client, Error, List, connection::Request, error::Kind};

/// The skills extension (feature `skills`).
impl Client {
    /// Lists the skills. The client reads no files. The server can have unlisted skills ([`Client::skill`]).
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// for skill in client.list_skills().await? {
    ///     println!("{}", skill.uri);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_skills(&self) -> List<Skill> {
        List::new(self.handle())
    }

    /// Returns the entry of a skill by the URI of its `SKILL.md`, also if it is not listed. The client reads no files.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let skill = client.skill("skill://review/SKILL.md").await?;
    /// println!("{}", skill.uri);
    /// # Ok(())
    /// # }
    /// ```
    pub fn skill(&self, uri: impl Into<String>) -> Call<Skill> {
        let request = Request::of::<method::GetSkill>(&GetSkillParams::new(uri));
        Call::with(self.handle(), request, |_, reply| reply.read::<GetSkillResult>().map(|result| result.skill))
    }

    /// Loads a skill: reads its `SKILL.md` and verifies it against the entry.
    ///
    /// The server writes the text of a skill. Do not trust it more than the results of its tools, and show users its
    /// origin.
    ///
    /// # Errors
    /// [`Error::is_unverified`] if the size, the digest or the front matter differ from the entry, or if the entry is
    /// invalid or lists no files ([`Dynamic`](mcp_protocol::skills::SkillResources::Dynamic)). The server may have a
    /// newer version: [`Client::skill`] returns its entry. Else as for every [`Call`].
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let skill = client.skill("skill://review/SKILL.md").await?;
    /// let loaded = client.load_skill(skill).await?;
    /// println!("{}", loaded.instructions());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn load_skill(&self, skill: Skill) -> Result<LoadedSkill, Error> {
        let own = verify::entry(&skill).map_err(Kind::Unverified)?;
        let bytes = read(self, own).await?;
        let (text, instructions_at) = verify::instructions(&skill, bytes).map_err(Kind::Unverified)?;
        Ok(LoadedSkill { client: self.clone(), skill, text, instructions_at })
    }
}

/// A skill whose `SKILL.md` was read and verified ([`Client::load_skill`]).
///
/// ```no_run
/// # async fn example(loaded: mcp_client::LoadedSkill) -> Result<(), mcp_client::Error> {
/// println!("{} has {} files", loaded.skill().uri, loaded.files().len());
/// println!("{}", loaded.instructions());
/// let style = loaded.read("references/style.md").await?;
/// println!("{} bytes", style.len());
/// # Ok(())
/// # }
/// ```
pub struct LoadedSkill {
    client: Client,
    skill: Skill,
    text: String,
    instructions_at: usize,
}

impl LoadedSkill {
    /// Returns the entry of the skill. If a user approves the skill, the approval is for exactly these files.
    #[must_use]
    pub fn skill(&self) -> &Skill {
        &self.skill
    }

    /// Returns the whole `SKILL.md`.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the `SKILL.md` without the front matter.
    #[must_use]
    pub fn instructions(&self) -> &str {
        &self.text[self.instructions_at..]
    }

    /// Returns the files of the skill.
    #[must_use]
    pub fn files(&self) -> &[SkillFile] {
        verify::files(&self.skill)
    }

    /// Reads and verifies a file of the skill. `path` is relative to the directory of the skill
    /// (`references/style.md`), or a URI.
    ///
    /// # Errors
    /// [`Error::is_unverified`] if the skill has no such file (then nothing is sent), or if its size or digest differ.
    /// Else as for every [`Call`].
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

/// Reads and verifies a file.
async fn read(client: &Client, file: &SkillFile) -> Result<Vec<u8>, Error> {
    let request = Request::of::<method::ReadResource>(&ReadResourceParams::new(&file.uri));
    // A cached result can be older than the entry.
    let result =
        Call::<mcp_protocol::ReadResourceResult>::new(client.handle(), request.map(|request| request.named(&file.uri)));
    let result = result.fresh().await?;
    let contents = result.contents.iter().find(|contents| contents.uri == file.uri);
    let contents = contents.ok_or_else(|| Error::invalid(format!("the result has no contents of {}", file.uri)))?;
    let bytes = contents.body.bytes().map_err(|error| Error::invalid(format!("{}: {error}", file.uri)))?;
    verify::bytes(file, &bytes).map_err(Kind::Unverified)?;
    Ok(bytes)
}
