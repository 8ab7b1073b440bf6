//! Transcripts of the command: what the documentation shows is what it prints.

#[test]
fn the_command_prints_what_the_transcripts_show() {
    trycmd::TestCases::new()
        .case("tests/cmd/*.trycmd")
        .case("tests/cmd/*.toml");
}
