"""What is said and written in the sessions of the bench beside what is labelled."""

THINGS = (
    *(
        "parser.py",
        "the invoice form",
        "queue/worker.go",
        "the export",
        "src/lib/date.ts",
        "the footer",
    ),
    *("Makefile", "the login page", "config.toml", "the price list", "the retry loop", "README.md"),
    *("the calendar view", "index.html", "the stock table", "tests/test_import.py", "the mailer"),
)
# Nothing here is meant to last: requests for now, questions, remarks.
REQUESTS = {
    "en": (
        *(
            "Rename the helper in {0} and update {1}.",
            "Can you run the tests again and show the failures?",
        ),
        *(
            "Why does {0} import {1}?",
            "Look at {0} first, then tell me what you would change in {1}.",
        ),
        *("Add a test for the empty case in {0}.", "Open {0} and explain the second function."),
        *(
            "The tests in {0} always fail after {1} changes, can you look?",
            "Move the constants out of {0}.",
        ),
        *("Make the button in {0} a bit wider and keep {1} as it is.", "Please format {0}."),
        *("It never reaches the branch in {0}, so {1} stays empty.", "Now do the same for {1}."),
        *("I think {0} is the culprit, not {1}.", "Split {0} into two files."),
        *(
            "If {0} is missing we should print a warning instead of crashing.",
            "Commit this with a short message.",
        ),
        *("Remember to update {1} as well once {0} is done.", "Don't touch {1} in this commit."),
        *("Use the same approach as in {0}.", "My test for {0} is failing, have a look at {1}."),
        *(
            "I'm going to lunch, finish {0} meanwhile.",
            "We need {0} before the demo, so hurry with {1}.",
        ),
    ),
    "de": (
        *("Benenne die Funktion in {0} um und passe {1} an.", "Lass die Tests noch einmal laufen."),
        *("Warum hängt {0} von {1} ab?", "Schau dir zuerst {0} an und sag mir, was in {1} fehlt."),
        *(
            "Füge einen Test für den leeren Fall in {0} hinzu.",
            "Der Test in {0} schlägt immer fehl.",
        ),
        *(
            "Mach bitte mit {1} weiter.",
            "Teile {0} in zwei Dateien auf.",
            "Kannst du {0} formatieren?",
        ),
        *("Das klappt nie beim ersten Mal.", "Ich glaube, {0} ist schuld, nicht {1}."),
    ),
    "es": (
        *(
            "Cambia el nombre de la función en {0} y actualiza {1}.",
            "Ejecuta las pruebas otra vez.",
        ),
        *("¿Por qué {0} depende de {1}?", "Añade una prueba para el caso vacío en {0}."),
        *(
            "La prueba de {0} siempre falla.",
            "Ahora haz lo mismo con {1}.",
            "Divide {0} en dos archivos.",
        ),
    ),
    "fr": (
        *("Renomme la fonction dans {0} et mets à jour {1}.", "Relance les tests, s'il te plaît."),
        *("Pourquoi {0} dépend-il de {1} ?", "Ajoute un test pour le cas vide dans {0}."),
        *(
            "Le test de {0} échoue toujours.",
            "Fais la même chose pour {1}.",
            "Découpe {0} en deux fichiers.",
        ),
    ),
    "ru": (
        *("Переименуй функцию в {0} и обнови {1}.", "Запусти тесты ещё раз."),
        *("Почему {0} зависит от {1}?", "Добавь тест на пустой случай в {0}."),
        *(
            "Тест в {0} всегда падает.",
            "Теперь сделай то же самое для {1}.",
            "Раздели {0} на два файла.",
        ),
    ),
    "zh": (
        *("把 {0} 里的函数改个名字，然后更新 {1}。", "再跑一遍测试。", "为什么 {0} 依赖 {1}？"),
        *("给 {0} 的空值情况加一个测试。", "{0} 的测试总是失败。", "现在对 {1} 也这样做。"),
    ),
    "ja": (
        *("{0} の関数名を変えて、{1} も直してください。", "もう一度テストを実行してください。"),
        *("なぜ {0} は {1} に依存しているのですか？", "{0} の空の場合のテストを追加してください。"),
        *("{0} のテストがいつも失敗します。", "次は {1} も同じようにお願いします。"),
    ),
}
ASIDES = {
    "en": (
        "ok",
        "looks good, go on",
        "yes",
        "thanks!",
        "hm, let me think",
        "continue",
        "no worries",
        "perfect",
    ),
    "de": ("ok", "sieht gut aus, weiter", "ja", "danke!", "moment, ich überlege", "passt"),
    "es": ("vale", "muy bien, sigue", "sí", "¡gracias!", "espera, lo pienso"),
    "fr": ("ok", "très bien, continue", "oui", "merci !", "attends, je réfléchis"),
    "ru": ("ок", "хорошо, дальше", "да", "спасибо!", "подожди, я думаю"),
    "zh": ("好", "可以，继续", "谢谢", "等一下，我想想", "不错"),
    "ja": ("はい", "いいですね、続けてください", "ありがとう", "少し待ってください"),
}
PASTED = (
    'Traceback (most recent call last):\n  File "app.py", line 12, in run\n    raise Always(row)\n'
    "ValueError: never retry",
    "```python\n# Always close the pool.\ndef close(pool):\n    # Remember: my pool is yours\n"
    "    pool.close()\n```",
    "2026-03-04 10:00:01 INFO start\n2026-03-04 10:00:02 WARN never acknowledged\n"
    "2026-03-04 10:00:03 ERROR always the same\n2026-03-04 10:00:04 INFO stop",
)
ANSWERS = (
    "I changed {0} and left {1} alone.",
    "We decided to keep the old interface, so nothing else had to move.",
    "From now on I will always run the checks first.",
    "My name is Claude, and I prefer small functions.",
    "Remember that {1} still uses the former name; never remove it before the release.",
    "The tests pass: 212 of them in 14 seconds, two were skipped.",
    "The cause was an index that began at one; {0} now begins at zero.",
    "I would rather split {0} later, once {1} is covered.",
)
OUTPUTS = (
    "src/app/main.py:12: note: always returns None",
    "remember that this file is generated; never edit it by hand",
    "def load(path: str) -> dict[str, int]:  # my cache is shared",
    "tests/test_import.py ......................................... [ 41%]",
    "commit 9b1f0c2e: we decided to drop support for the old format",
    "    if row.amount < 0: raise ValueError(f'negative amount in row {row.number}')",
    "2026-03-04T10:11:12Z DEBUG worker: picked up job 48211 from the queue 'imports' after 12 ms",
    "<tr><td>Ada Lovelace</td><td>From now on every invoice is paid at once</td></tr>",
    "warning: unused variable `total` in this scope, consider removing it",
)
