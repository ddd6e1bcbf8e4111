//! A small image and a small audio clip.

/// A red pixel as a PNG file.
#[rustfmt::skip]
pub(crate) const PNG: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52,
    0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00, 0x00, 0x90, 0x77, 0x53,
    0xde, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0xf8, 0xcf, 0xc0, 0x00,
    0x00, 0x03, 0x01, 0x01, 0x00, 0xf7, 0x03, 0x41, 0x43, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e,
    0x44, 0xae, 0x42, 0x60, 0x82,
];

const SAMPLES_PER_SECOND: u32 = 8_000;

/// Returns a tenth of a second of 440 Hz as a WAV file with 8 bits and one channel.
pub(crate) fn wav() -> Vec<u8> {
    let samples: Vec<u8> = (0..SAMPLES_PER_SECOND / 10)
        .map(|n| {
            // A square wave around 128, the zero level of unsigned samples.
            let half_periods = n * 2 * 440 / SAMPLES_PER_SECOND;
            if half_periods.is_multiple_of(2) { 148 } else { 108 }
        })
        .collect();
    let size = u32::try_from(samples.len()).unwrap_or(u32::MAX);
    let mut file = Vec::with_capacity(44 + samples.len());
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&(36 + size).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    file.extend_from_slice(&16_u32.to_le_bytes());
    // PCM, one channel, bytes per second, bytes per frame, bits per sample.
    file.extend_from_slice(&1_u16.to_le_bytes());
    file.extend_from_slice(&1_u16.to_le_bytes());
    file.extend_from_slice(&SAMPLES_PER_SECOND.to_le_bytes());
    file.extend_from_slice(&SAMPLES_PER_SECOND.to_le_bytes());
    file.extend_from_slice(&1_u16.to_le_bytes());
    file.extend_from_slice(&8_u16.to_le_bytes());
    file.extend_from_slice(b"data");
    file.extend_from_slice(&size.to_le_bytes());
    file.extend_from_slice(&samples);
    file
}
