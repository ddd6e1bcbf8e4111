//! A checked handler of a resource with the mistake "output of another kind".

use mcp_server::{check, prelude::*};

async fn show() -> Image {
    Image::png(vec![])
}

const _: () = check::resource::<(), _, _>(&show);

fn main() {}
