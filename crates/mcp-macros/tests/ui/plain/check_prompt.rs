//! A checked handler of a prompt with the mistake "output of another kind".

use mcp_server::{check, prelude::*};

async fn show() -> Image {
    Image::png(vec![])
}

const _: () = check::prompt::<(), _, _>(&show);

fn main() {}
