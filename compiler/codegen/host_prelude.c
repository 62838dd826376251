// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of one element that no instruction computes, in textual LLVM IR; linked in when a kernel calls one.
#include "compiler/codegen/host.h"

// kl_fmod_f64: long division of the mantissas, one bit a turn; exact.
#define FMOD                                                                                                  \
  "define internal double @kl_fmod_f64(double %a, double %b) nounwind {\n"                                    \
  "entry:\n"                                                                                                  \
  "  %ia = bitcast double %a to i64\n"                                                                        \
  "  %ib = bitcast double %b to i64\n"                                                                        \
  "  %ua = and i64 %ia, 9223372036854775807\n"                                                                \
  "  %ub = and i64 %ib, 9223372036854775807\n"                                                                \
  "  %sign = and i64 %ia, -9223372036854775808\n"                                                             \
  "  %bzero = icmp eq i64 %ub, 0\n"                                                                           \
  "  %bnan = icmp ugt i64 %ub, 9218868437227405312\n"                                                         \
  "  %abad = icmp uge i64 %ua, 9218868437227405312\n"                                                         \
  "  %bad0 = or i1 %bzero, %bnan\n"                                                                           \
  "  %bad = or i1 %bad0, %abad\n"                                                                             \
  "  br i1 %bad, label %nan, label %small\n"                                                                  \
  "nan:\n"                                                                                                    \
  "  ret double 0x7FF8000000000000\n"                                                                         \
  "small:\n"                                                                                                  \
  "  %less = icmp ult i64 %ua, %ub\n"                                                                         \
  "  br i1 %less, label %same, label %unpack\n"                                                               \
  "same:\n"                                                                                                   \
  "  ret double %a\n"                                                                                         \
  "unpack:\n"                                                                                                 \
  "  %ea0 = lshr i64 %ua, 52\n"                                                                               \
  "  %eb0 = lshr i64 %ub, 52\n"                                                                               \
  "  %fa = and i64 %ua, 4503599627370495\n"                                                                   \
  "  %fb = and i64 %ub, 4503599627370495\n"                                                                   \
  "  %adenormal = icmp eq i64 %ea0, 0\n"                                                                      \
  "  %bdenormal = icmp eq i64 %eb0, 0\n"                                                                      \
  "  %na = or i64 %fa, 4503599627370496\n"                                                                    \
  "  %nb = or i64 %fb, 4503599627370496\n"                                                                    \
  "  %ma = select i1 %adenormal, i64 %fa, i64 %na\n"                                                          \
  "  %mb = select i1 %bdenormal, i64 %fb, i64 %nb\n"                                                          \
  "  %ea = select i1 %adenormal, i64 1, i64 %ea0\n"                                                           \
  "  %eb = select i1 %bdenormal, i64 1, i64 %eb0\n"                                                           \
  "  %first = urem i64 %ma, %mb\n"                                                                            \
  "  br label %test\n"                                                                                        \
  "test:\n"                                                                                                   \
  "  %rest = phi i64 [ %first, %unpack ], [ %cut, %turn ]\n"                                                  \
  "  %e = phi i64 [ %ea, %unpack ], [ %down, %turn ]\n"                                                       \
  "  %more = icmp ugt i64 %e, %eb\n"                                                                          \
  "  br i1 %more, label %turn, label %pack\n"                                                                 \
  "turn:\n"                                                                                                   \
  "  %twice = shl i64 %rest, 1\n"                                                                             \
  "  %over = icmp uge i64 %twice, %mb\n"                                                                      \
  "  %minus = sub i64 %twice, %mb\n"                                                                          \
  "  %cut = select i1 %over, i64 %minus, i64 %twice\n"                                                        \
  "  %down = sub i64 %e, 1\n"                                                                                 \
  "  br label %test\n"                                                                                        \
  "pack:\n"                                                                                                   \
  "  %lead = call i64 @llvm.ctlz.i64(i64 %rest, i1 false)\n"                                                  \
  "  %room = sub i64 %lead, 11\n"                                                                             \
  "  %most = sub i64 %eb, 1\n"                                                                                \
  "  %by = call i64 @llvm.umin.i64(i64 %room, i64 %most)\n"                                                   \
  "  %up = shl i64 %rest, %by\n"                                                                              \
  "  %exponent = sub i64 %most, %by\n"                                                                        \
  "  %high = shl i64 %exponent, 52\n"                                                                         \
  "  %sum = add i64 %high, %up\n"                                                                             \
  "  %zero = icmp eq i64 %rest, 0\n"                                                                          \
  "  %size = select i1 %zero, i64 0, i64 %sum\n"                                                              \
  "  %bits = or i64 %size, %sign\n"                                                                           \
  "  %r = bitcast i64 %bits to double\n"                                                                      \
  "  ret double %r\n"                                                                                         \
  "}\n"                                                                                                       \
  "declare i64 @llvm.ctlz.i64(i64, i1)\n"                                                                     \
  "declare i64 @llvm.umin.i64(i64, i64)\n"

const char host_prelude[] = FMOD;
