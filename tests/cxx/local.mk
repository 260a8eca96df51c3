# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/cxx/test_hpp
tests_cxx_test_hpp_SOURCES = tests/cxx/test_hpp.cc
tests_cxx_test_hpp_CXXFLAGS = -std=c++17 -Wall -Wextra
tests_cxx_test_hpp_LDADD = libripc.la
