# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/cxx/test_hpp
tests_cxx_test_hpp_SOURCES = tests/cxx/test_hpp.cc tests/cxx/hpp.h
tests_cxx_test_hpp_CXXFLAGS = -std=c++17 -Wall -Wextra
tests_cxx_test_hpp_LDADD = libripc.la

check_PROGRAMS += tests/cxx/test_processes
tests_cxx_test_processes_SOURCES = tests/cxx/test_processes.cc tests/cxx/hpp.h
tests_cxx_test_processes_CXXFLAGS = -std=c++17 -Wall -Wextra
tests_cxx_test_processes_LDADD = libripc.la
