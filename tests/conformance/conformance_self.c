/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The conformance suite with source and destination in the same, real context. */
#include "real.h"

START_TEST(run)
{
	struct conf c;

	real_environment(&c, "self", "", "");
	c.same = true;
	conf_set_label(&c, conf_find(_i)->name);
	conf_run_case(&c, conf_find(_i));
}
END_TEST

static bool wanted(const struct conf_case *k)
{
	return !(k->needs & (CONF_SIM | CONF_TWO_CONTEXTS));
}

int main(int argc, char **argv)
{
	/* Drawn here, once for all cases. */
	test_seed();
	return test_main("conformance_self", conf_suite("conformance_self", run, wanted, 300));
}
