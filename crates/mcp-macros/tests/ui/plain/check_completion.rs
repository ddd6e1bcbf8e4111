//! A checked handler of a completion with the mistake "output of another kind".

use mcp_server::{check, prelude::*};

async fn show() -> Image {
    Image::png(vec![])
}

const _: () = check::completion::<(), _, _>(&show);

fn main() {}
