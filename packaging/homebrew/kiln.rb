# Formula for Homebrew on Linux; tools/check-recipes.py compares it with the Makefile.
class Kiln < Formula
  desc "Compiles GPU kernels ahead of time, with an artifact cache"
  homepage "https://kiln.invalid/"
  url "https://kiln.invalid/releases/kiln-0.1.0.tar.xz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000" # of SHA256SUMS of the release
  license "Apache-2.0" => { with: "LLVM-exception" }

  depends_on "pkg-config" => :build
  depends_on "xxhash" => :build
  depends_on "curl"
  depends_on "libarchive"
  depends_on "libsodium"
  depends_on :linux
  depends_on "lld@22"
  depends_on "llvm@22"
  depends_on "ncurses"
  depends_on "nettle"
  depends_on "python@3.13"
  depends_on "zstd"

  def install
    llvm = Formula["llvm@22"].opt_bin/"llvm-config"
    python = Formula["python@3.13"].opt_bin/"python3.13"
    system "make", "LLVM_CONFIG=#{llvm}", "PYTHON=#{python}", "all"
    system "make", "LLVM_CONFIG=#{llvm}", "PYTHON=#{python}", "PREFIX=#{prefix}", "SYSCONFDIR=#{etc}", "install"
  end

  test do
    (testpath/"k.kiln").write <<~KILN
      kiln 1
      kernel k(x: out *f32) @grid(1) @warps(1) { store(x + iota(32), 1.0) }
    KILN
    system bin/"kiln", "build", "k.kiln", "--target", "host", "-o", "k.kbundle"
    system bin/"kiln", "verify", "k.kbundle"
  end
end
