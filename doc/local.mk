# SPDX-License-Identifier: LGPL-2.1-or-later
# Manual pages: ripc(7) is written by hand; mkman writes section 3 from the comments of ripc.h.
# automake needs the names; tests/install/test_manpages.sh compares them with the header.
MAN_DATE = November 23, 2026
RIPC_MAN3 = \
	doc/man/ripc_buf_alloc.3 \
	doc/man/ripc_buf_alloc_for.3 \
	doc/man/ripc_buf_free.3 \
	doc/man/ripc_buf_realloc.3 \
	doc/man/ripc_buf_register.3 \
	doc/man/ripc_buf_unregister.3 \
	doc/man/ripc_call.3 \
	doc/man/ripc_call_options.3 \
	doc/man/ripc_call_start.3 \
	doc/man/ripc_call_wait.3 \
	doc/man/ripc_close.3 \
	doc/man/ripc_completion.3 \
	doc/man/ripc_completion_fd.3 \
	doc/man/ripc_completion_kind.3 \
	doc/man/ripc_completion_next.3 \
	doc/man/ripc_context_stats.3 \
	doc/man/ripc_error_detail.3 \
	doc/man/ripc_event.3 \
	doc/man/ripc_flags.3 \
	doc/man/ripc_flush.3 \
	doc/man/ripc_group_join.3 \
	doc/man/ripc_group_leave.3 \
	doc/man/ripc_group_send.3 \
	doc/man/ripc_group_stats.3 \
	doc/man/ripc_id.3 \
	doc/man/ripc_limits.3 \
	doc/man/ripc_log_fn.3 \
	doc/man/ripc_log_level.3 \
	doc/man/ripc_log_set.3 \
	doc/man/ripc_message.3 \
	doc/man/ripc_message_cancelled.3 \
	doc/man/ripc_message_deadline.3 \
	doc/man/ripc_message_detach.3 \
	doc/man/ripc_message_free.3 \
	doc/man/ripc_open.3 \
	doc/man/ripc_peer_stats.3 \
	doc/man/ripc_placement.3 \
	doc/man/ripc_receive.3 \
	doc/man/ripc_register_name.3 \
	doc/man/ripc_reply.3 \
	doc/man/ripc_reply_error.3 \
	doc/man/ripc_reply_start.3 \
	doc/man/ripc_request_cancel.3 \
	doc/man/ripc_request_test.3 \
	doc/man/ripc_request_wait.3 \
	doc/man/ripc_resolver_info.3 \
	doc/man/ripc_route.3 \
	doc/man/ripc_route_get.3 \
	doc/man/ripc_route_limits.3 \
	doc/man/ripc_route_lookup.3 \
	doc/man/ripc_send.3 \
	doc/man/ripc_send_async.3 \
	doc/man/ripc_send_long.3 \
	doc/man/ripc_send_options.3 \
	doc/man/ripc_send_short.3 \
	doc/man/ripc_service_fd.3 \
	doc/man/ripc_service_id.3 \
	doc/man/ripc_service_info.3 \
	doc/man/ripc_service_list.3 \
	doc/man/ripc_service_list_fn.3 \
	doc/man/ripc_service_register.3 \
	doc/man/ripc_service_stats.3 \
	doc/man/ripc_service_unregister.3 \
	doc/man/ripc_stats.3 \
	doc/man/ripc_strerror.3 \
	doc/man/ripc_transport_info.3 \
	doc/man/ripc_unwatch.3 \
	doc/man/ripc_version.3 \
	doc/man/ripc_watch.3 \
	doc/man/ripc_window_add.3 \
	doc/man/ripc_window_remove.3

dist_man_MANS += doc/man/ripc.7 $(RIPC_MAN3)
$(RIPC_MAN3): include/ripc.h doc/man/mkman doc/local.mk $(MAN_EXAMPLES)
	$(AM_V_GEN)$(MKDIR_P) doc/man && $(PERL) $(srcdir)/doc/man/mkman $(srcdir)/include/ripc.h \
		$(PACKAGE_VERSION) "$(MAN_DATE)" $@ $(MAN_EXAMPLES:%=$(srcdir)/%)

MAINTAINERCLEANFILES = $(RIPC_MAN3) tools/completion/ripc-info
EXTRA_DIST += doc/man/mkman doc/architecture.md doc/glossary.md doc/languages.md \
	doc/performance.md doc/protocol.md doc/scaling.md \
	doc/security.md doc/transports.md doc/tutorial.md \
	doc/scaling/scale.tsv doc/scaling/heard.svg doc/scaling/ensemble.svg \
	doc/scaling/resolve.svg doc/scaling/memory.svg

# Written by scripts/bench, as they are at the time.
EXTRA_DIST += doc/performance
