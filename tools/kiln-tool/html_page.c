// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Begins and ends HTML pages in one style.
#include "tools/kiln-tool/html_page.h"

#include "tools/kiln-tool/html_text.h"

static const char style[] =
    ":root{color-scheme:light "
    "dark;--ink:#1a1c20;--soft:#5b616b;--paper:#fff;--line:#d9dce1;--a:#9dbfe8;--b:#1f5fae;"
    "--good:#1c7a3e}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e8eaed;--soft:#a2a8b3;--paper:#16181c;--line:#383c44;--a:"
    "#37557c;--b:#78b0f2;--good:#6cc98b}}\n"
    "*{box-sizing:border-box}body{margin:2rem auto;max-width:80rem;padding:0 1rem;font:15px/1.5 "
    "system-ui,sans-serif;color:var(--ink);background:var(--paper)}\n"
    "h1{font-size:1.5rem;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:2rem 0 "
    ".5rem;overflow-wrap:anywhere}p{color:var(--soft);margin:.3rem 0;max-width:60rem}\n"
    "dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(9rem,1fr));gap:.6rem;margin:0}\n"
    "dl div{border:1px solid var(--line);border-radius:6px;padding:.5rem "
    ".7rem}dt{color:var(--soft);font-size:13px}dd{margin:0;font-size:1.15rem}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:"
    "tabular-nums}\n"
    "th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--line);vertical-align:top}\n"
    "tbody th,.text,.notes td,tfoot th,thead th:nth-child(-n+2){text-align:left}tbody th,.notes "
    "th{font-weight:normal}tbody "
    "th[rowspan]{font-weight:600;min-width:9rem;overflow-wrap:anywhere}.text{min-width:9rem;overflow-wrap:"
    "anywhere}\n"
    "thead th,tfoot,.win th,.win td{font-weight:600}.notes td{overflow-wrap:anywhere}.out th,.out "
    "td{color:var(--soft)}\n"
    ".bars{display:grid;grid-template-columns:minmax(9rem,24rem) 1fr;gap:.25rem .6rem;margin:.5rem "
    "0;font-size:14px}\n"
    ".bars "
    ".l{overflow-wrap:anywhere;text-align:right}.t{display:flex;align-items:center;gap:.4rem}.t+.t{margin-"
    "top:2px}"
    ".v{color:var(--soft);font-size:13px;white-space:nowrap}.x{flex:1}\n"
    "@media(max-width:40rem){.bars{grid-template-columns:1fr}.bars .l{text-align:left}}\n"
    ".b{display:block;height:.8rem;min-width:1px}td "
    ".b{min-width:1px}.scale{min-width:10rem}.s0{background:var(--a)}.s1{"
    "background:var(--b)}.win "
    ".s1{background:var(--good)}.key{display:inline-block;width:.8rem;height:.8rem;margin:0 "
    ".3rem 0 .6rem}\n";

void html_page_begin(kiln_buffer *out, const char *title) {
  kiln_buffer_format(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
                          "&#39;none&#39;; style-src &#39;unsafe-inline&#39;\"/>\n"
                          "<meta name=\"viewport\" content=\"width=device-width\"/>\n<title>");
  html_text(out, title, SIZE_MAX);
  kiln_buffer_format(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>", style);
  html_text(out, title, SIZE_MAX);
  kiln_buffer_format(out, "</h1>\n");
}

void html_page_end(kiln_buffer *out) { kiln_buffer_format(out, "</body>\n</html>\n"); }

void html_bar(kiln_buffer *out, unsigned series, double part) {
  kiln_buffer_format(out, "<span class=\"b s%u\" style=\"width:%.1f%%\"></span>", series, 100 * part);
}
