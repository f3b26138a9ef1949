"""`butlers memory`: what a butler remembers, for people."""

import typer

from butlers.doors.cli import cost
from butlers.doors.cli.memory import judging, reading, storing, telling, upkeep

app = typer.Typer(help="What a butler remembers.", no_args_is_help=True)
app.command("store-fact")(storing.store_fact)
app.command("store-rule")(storing.store_rule)
app.command("store-episode")(storing.store_episode)
app.command("search")(reading.search)
app.command("recall")(reading.recall)
app.command("context")(reading.context)
app.command("get")(reading.get)
app.command("stats")(reading.stats)
app.command("confirm")(judging.confirm)
app.command("helpful")(judging.helpful)
app.command("harmful")(judging.harmful)
app.command("forget")(judging.forget)
app.command("restore")(judging.restore)
app.command("history")(telling.history)
app.command("explain")(telling.explain)
app.command("dead-letters")(upkeep.dead_letters)
app.command("reembed")(upkeep.reembed)
app.command("cost")(cost.cost)
