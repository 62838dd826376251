// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `kiln cache push BUNDLE ADDRESS` and `kiln cache pull` start.
#ifndef KILN_TOOLS_REMOTE_BUNDLE_H
#define KILN_TOOLS_REMOTE_BUNDLE_H

/// argv[1] is "push-bundle" or "pull-bundle"; the exit code.
int remote_bundle(int argc, char **argv);

#endif
