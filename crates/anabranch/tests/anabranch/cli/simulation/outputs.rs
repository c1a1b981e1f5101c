//! Output files: two outputs need two files, and no output overwrites an input.

use crate::cli::{anabranch, refused_in_one_line, scratch, text};

#[test]
fn two_outputs_in_one_file_are_refused() {
    let folder = scratch("one-file");
    let (file, same) = (folder.join("run"), folder.join(".").join("run"));
    let files = ["--json", text(&file), "--history", text(&same)];
    let sim = [&["sim", "register"][..], &files].concat();
    let bench = [&["bench", "ycsb"][..], &files].concat();
    for arguments in [sim, bench] {
        let because = ["--json", "--history", "name the same file", "another one"];
        refused_in_one_line(&arguments, &because);
    }
    assert_eq!(
        std::fs::read_dir(&folder).unwrap().count(),
        0,
        "nothing was written"
    );
    let nowhere = ["--json", "/dev/null", "--history", "/dev/null"];
    let sim = ["sim", "register", "--transactions", "20"];
    assert_eq!(anabranch(&[&sim[..], &nowhere].concat()).code, 0);
}

#[test]
fn inputs_are_not_overwritten() {
    let folder = scratch("input-as-output");
    let sim = ["sim", "register", "--transactions", "20", "--faults"];
    let (plan, history) = (folder.join("plan"), folder.join("history.jsonl"));
    let files = ["--plan", text(&plan), "--history", text(&history)];
    let first = [&sim[..], &["mild"], &files].concat();
    assert_eq!(anabranch(&first).code, 0);
    let matrix = folder.join("matrix");
    std::fs::write(&matrix, "0 9\n9 0\n").unwrap();
    let wide = format!("wan:{}", text(&matrix));
    let kept = || [&plan, &history, &matrix].map(|file| std::fs::read(file).unwrap());
    let before = kept();
    // Another path of the same file. (Paths that differ only by `.` compare as equal anyway.)
    let itself = folder.file_name().expect("it has a name");
    let same = folder.join("..").join(itself).join("plan");
    let over: [(&str, Vec<&str>); 3] = [
        (
            "--json",
            [&sim[..], &[text(&plan), "--json", text(&same)]].concat(),
        ),
        (
            "--diagram",
            vec![
                "sim",
                "register",
                "--net",
                &wide,
                "--diagram",
                text(&matrix),
            ],
        ),
        (
            "--svg",
            vec![
                "check",
                text(&history),
                "--model",
                "causal",
                "--svg",
                text(&history),
            ],
        ),
    ];
    for (option, arguments) in over {
        refused_in_one_line(
            &arguments,
            &[option, "would overwrite the input", "another file"],
        );
    }
    assert_eq!(kept(), before);
}
