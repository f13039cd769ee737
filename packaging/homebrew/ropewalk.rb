# `homepage` and `head` are those of whoever hosts the sources; then
#   brew install --formula --HEAD packaging/homebrew/ropewalk.rb
class Ropewalk < Formula
  desc "Git for LLM conversations: records, links and shows what clients ask models"
  homepage "https://ropewalk.example"
  license any_of: ["MIT", "Apache-2.0"]
  head "https://ropewalk.example/ropewalk.git", branch: "main"

  depends_on "node" => :build
  depends_on "rust" => :build

  def install
    # The dashboard goes into the program; without it a page says how to build it.
    cd "ui" do
      system "npm", "ci", "--no-audit", "--no-fund"
      system "npm", "run", "build"
    end
    system "cargo", "install", *std_cargo_args(path: "crates/ropewalk")
    generate_completions_from_executable(bin/"ropewalk", "completions")
    system bin/"ropewalk", "man", "--dir", man1
  end

  service do
    run [opt_bin/"ropewalk", "serve"]
    keep_alive true
    log_path var/"log/ropewalk.log"
    error_log_path var/"log/ropewalk.log"
  end

  test do
    system bin/"ropewalk", "demo", "--data", testpath/"demo"
    assert_match "leap_days", shell_output("#{bin}/ropewalk --data #{testpath}/demo log")
  end
end
