//! Writes corpus seeds from small real regions: `seeds FOLDER REGION.slt...` packs each into FOLDER, in the forms that
//! an input's first byte asks for.

use std::path::Path;
use strandline_fuzz::pack;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("expected a folder and regions")?;
    std::fs::create_dir_all(&folder)?;
    for region in arguments {
        let packed = pack::pack(&std::fs::read(&region)?);
        let stem = Path::new(&region)
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        for how in [0u8, 8, 16, 32, 48, 80, 128, 144, 160] {
            let mut seed = vec![how];
            seed.extend_from_slice(&packed);
            std::fs::write(Path::new(&folder).join(format!("{stem}-{how}")), &seed)?;
        }
        println!("{region}: {} bytes packed", packed.len());
    }
    Ok(())
}
