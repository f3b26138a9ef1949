"""Words by which a text speaks to its reader, by language, as `suspicion` looks for them.

Each is a pattern over text in small letters without accents, on one line.
"""

_NEAR = r"(?:\W+[\w'’]+){0,5}?\W+"

_IGNORE = (
    r"\b(?:ignore|ignorez|ignora|ignorad|ignorar|ignoriere?|ignoriert|disregard|forget"
    r"|override|bypass|erase|losche|cancel"
    r"|vergiss|vergesst|missachte|ubergehe|oublie[sz]?|neglige[sz]?|olvida|olvide|dimentica"
    r"|scorda"
    r"|esqueca|esquece|ignore|desconsidere|negeer|vergeet|zignoruj|zapomnij|pomin"
    r"|игнорируй\w*|забудь\w*|проигнорируй\w*)"
)
_EARLIER = (
    r"(?:previous|prior|above|earlier|preceding|former|existing|all|any|your|every|everything"
    r"|system"
    r"|vorherig\w*|bisherig\w*|vorig\w*|obig\w*|fruher\w*|alle[nsr]?|deine\w*|precedent\w*"
    r"|anterior\w*"
    r"|previ[ao]s?|tod[ao]s|tous|toutes|tutt[ei]|eerdere|vorige|poprzedni\w*|wszystki\w*"
    r"|wczesniejsz\w*"
    r"|предыдущ\w*|прежн\w*|все|всё)"
)
_TOLD = (
    r"(?:instruc\w*|instruk\w*|anweisung\w*|istruzion\w*|rules?|regeln?|reglas|regras|regole"
    r"|regles"
    r"|consignes|guidelines|prompts?|directives?|you (?:were|have been) told|you know|polecenia"
    r"|инструкци\w*|правил\w*|указани\w*|vorgaben|ordini|ordenes|ordens)"
)
# Ways to say that what was told before does not count, in the imperative or as a finding.
_VOID = (
    r"\b(?:set aside|put aside|leave aside|stop (?:following|obeying|listening to)|quit following"
    r"|(?:do not|don't|never) (?:follow|obey|heed|comply with|apply)|pay no (?:attention|heed) to"
    r"|discard|drop|abandon|neglect|overlook|dismiss|let go of|beachte|befolge|halte dich|kummere"
    r"|fais abstraction|fais fi|ne tiens|ne suis|n'obeis|no hagas caso|haz caso omiso"
    r"|deja de seguir"
    r"|no sigas|descarta|trascura|non seguire|non badare|lascia perdere|nao siga|nao ligue"
    r"|deixe de"
    r"|volg niet|let niet op|nie zwazaj|не обращай|не следуй|не слушай|отбрось|перестань)"
)
_VOIDED = (
    r"(?:no longer (?:apply|count|hold|bind|valid)|(?:are|is) (?:now )?(?:void|revoked"
    r"|cancelled|lifted"
    r"|suspended|obsolete)|do(?:es)? not (?:apply|count)|gelten nicht|ne s'appliquent plus"
    r"|ya no (?:se aplican|valen)|non valgono|больше не действ\w+)"
)
_READER = (
    r"(?:user|users|owner|operator|human|customer|client|benutzer\w*|nutzer\w*|anwender\w*"
    r"|kund\w+"
    r"|utilisateur\w*|usuari\w+|utente|utenti|gebruiker\w*|uzytkownik\w*|пользовател\w*"
    r"|kullanici\w*)"
)
_SECRET = (
    r"(?:passwor\w*|passwort\w*|kennwort\w*|contrasen\w*|mots? de passe|senhas?|wachtwoord\w*"
    r"|parol\w*"
    r"|парол\w*|credentials?|secrets?|tokens?|api keys?|vault key|private keys?|ssh|id_rsa"
    r"|\.env\b|env file"
    r"|cards?|card numbers?|environment variables|conversations?|customer\w*|every message"
    r"|all messages"
    r"|rechnung\w*|invoices?|last message|keys)"
)
_SEND = (
    r"\b(?:send|post|upload|forward|mail|e-?mail|copy|append|leak|transmit|paste|share|schicke"
    r"|sende"
    r"|leite|envoie[sz]?|transmets|envia|envie|manda|invia|verstuur|stuur|wyslij"
    r"|отправляй\w*|отправь\w*|пересылай\w*)\b"
)
_PLACE = (
    r"(?:https?://|[\w.+-]+@[\w-]+\.|webhook|\bdns\b|\b\w+\.(?:example|com|net|org|io|ru|cn)\b)"
)

ORDERS: tuple[str, ...] = (
    # Forget what you were told.
    rf"{_IGNORE}\W+(?:\w+\W+){{0,3}}?{_EARLIER}{_NEAR}{_TOLD}",
    rf"{_IGNORE}{_NEAR}{_TOLD}\W+(?:\w+\W+)?(?:{_EARLIER}|below|here)",
    rf"{_IGNORE}\W+everything\W+{_TOLD}",
    r"\b(?:forget|ignore|disregard|oublie\w*|olvida\w*|vergiss|dimentica|esqueca|забудь)\b"
    r"(?:\W+[\w'’]+){0,3}?\W+(?:you (?:were|have been) (?:told|taught|given)|(?:on )?t'a dit"
    r"|te dijeron|man dir|тебе говорили|ti hanno detto)",
    r"\b(?:policies|orders|rules|instructions|guidelines)\b(?:\W+\w+){0,5}?\W+(?:have|has) been "
    r"(?:revoked|cancelled|lifted|replaced|suspended)",
    r"(?:忽略|无视|無視|忘记|忘掉|不要理会).{0,12}(?:指令|指示|规则|規則|提示|说明|命令)",
    r"(?:指示|命令|ルール|プロンプト|指令).{0,10}(?:無視|忘れ)",
    r"(?:지시|명령|규칙|프롬프트).{0,12}(?:무시|잊)",
    r"(?:onceki|tum|butun)\W+(?:\w+\W+){0,3}?(?:talimat|kural|komut)\w*\W+(?:\w+\W+){0,2}?"
    r"(?:yok say|unut|gormezden)",
    r"(?:تجاهل|انس|تجاهلي).{0,20}(?:التعليمات|تعليمات|الأوامر|القواعد)",
    rf"{_VOID}(?:\W+[\w'’]+){{0,7}}?\W+(?:{_TOLD}|directions|policies|was dir|what you)",
    rf"(?:{_TOLD}|policies)(?:\W+[\w'’]+){{0,4}}?\W+{_VOIDED}",
    r"(?:不要|别|不必|不再|无需).{0,3}(?:理会|遵守|遵循|听从|管).{0,10}(?:规则|指令|指示|要求"
    r"|提示)",
    r"(?:指示|ルール|規則)に?(?:は)?従わ(?:ない|ず)|(?:지시|규칙)(?:을|를|에)?.{0,4}따르지",
    r"\b(?:only|exclusively|nur|solo|seulement|только)\W+(?:obey|listen to|follow)\b|只听从"
    r"|だけに従",
    r"\b(?:obey|obbedisci|obedece|obeis|gehorche|подчиняйся|слушайся|posluchaj|itaat et)\b",
    r"\b(?:act|rely) (?:only )?on the following\b|\bthe following note only\b",
    r"\b(?:as|being) an? (?:ai|assistant|language model|llm|agent)\b\W+(?:you|must|are)\b",
    r"\b(?:hinweis|notiz|nachricht|anweisung)\w*\W+(?:an|fur)\W+(?:die |den |das )?(?:ki"
    r"|modell|assistent\w*)\b"
    r"|\b(?:nota|note|aviso|mensaje|message)\W+(?:para|pour|per|a)\W+(?:la |l'|el )?(?:ia"
    r"|asistente|assistant\w*)\b",
    r"\b(?:respond|answer|reply|antworte|responde|reponds|rispondi|responda|отвечай)\W+"
    r"(?:to\W+)?(?:everything|every (?:question|message)|all questions|nur|only|solo|seulement"
    r"|только)\b",
    r"\bprint\b(?:\W+\w+){0,3}?\W+(?:hidden|internal|system)\W+(?:configuration|prompt"
    r"|instructions|settings)",
    # You are somebody else now, or another speaks.
    r"\b(?:reveal|print|show|repeat|leak|output|tell|disclose|verrat\w*|revela|revele|zeige)\b"
    rf"{_NEAR}(?:system\W?(?:prompt|message|nachricht)|systemprompt|mensaje del sistema"
    rf"|prompt systeme)",
    r"\bsystem\W?(?:prompt|message)\b.{0,40}\b(?:void|obsolete|replaced|invalid)",
    r"\b(?:important|urgent|attention)\W+system\b|\bsystem\W+(?:override|update|notice"
    r"|alert)\s*:",
    r"^\W{0,3}system\s*:|<\|im_(?:start|end)\|>|\[/?inst\]|<</?sys>>|<\|(?:system|user"
    r"|assistant)\|>",
    r"\bdeveloper mode\b|\bjailbreak\b|\bdan mode\b|\bwithout (?:any )?(?:limits|restrictions)\b"
    r"|\bohne (?:jede )?einschrankung\w*",
    r"\bnew instructions?\b\W+(?:from|by|follow|:)|\bdrop your (?:safety|rules)",
    r"\b(?:note|message|instructions?|hint)\W+(?:to|for)\W+(?:the |an? |any )?"
    r"(?:ai|assistant|agent|model|llm|bot|reader)\b",
    r"\b(?:assistant|ai|agent|llm)\s*[:,]\s*(?:please\s+)?"
    r"(?:ignore|always|never|do not|don't|you|forget|send|approve|run|obey)\b",
    r"\bobey\b.{0,40}\b(?:next|this|whoever|only|note|every)|\bfollow only this\b",
    # Keep it from the user.
    rf"\b(?:do not|don't|don’t|never|without)\W+(?:ever\W+)?"
    rf"(?:tell|telling|inform|informing|notify|notifying|warn|warning|alert|alerting|mention"
    rf"|mentioning)"
    rf"(?:\W+\w+){{0,3}}?\W+{_READER}",
    r"\b(?:never|do not|don't|without)\W+mention\w*\W+(?:it|this|that)\b",
    rf"\b(?:secret|hidden|hide|conceal|concealed)\W+(?:\w+\W+){{0,3}}?from\W+(?:the "
    rf"|your )?{_READER}",
    rf"\bohne\W+(?:\w+\W+){{0,2}}?{_READER}\W+(?:\w+\W+){{0,2}}?(?:zu\W+)?(?:informier|frag"
    rf"|sag|warn)\w*",
    rf"\bsans\W+(?:prevenir|informer|avertir|le dire"
    rf"|demander)(?:\W+\w+){{0,3}}?\W{{0,3}}{_READER}",
    rf"\bs(?:in|em|enza)\W+(?:avis|dec|dire|inform|pregunt|cont"
    rf"|chied)\w*(?:\W+\w+){{0,3}}?\W+{_READER}",
    rf"\bzonder\W+(?:\w+\W+){{0,2}}?{_READER}\W+(?:\w+\W+){{0,3}}?(?:informeren|vertellen"
    rf"|vragen)",
    rf"\bне\W+(?:говори|сообщай|рассказывай|предупреждай)\w*(?:\W+\w+){{0,3}}?\W+{_READER}",
    r"(?:不要|别|切勿).{0,3}(?:告诉|通知|提醒).{0,3}(?:用户|使用者|客户)",
    r"(?:ユーザー|利用者)に(?:は)?(?:言わ|伝え|知らせ|教え)(?:ないで|ず)",
    r"사용자에게.{0,12}(?:말하지|알리지|언급하지)",
    rf"\b(?:do not|don't|never)\W+let\W+(?:the |your )?{_READER}\W+(?:\w+\W+)?"
    r"(?:know|see|notice|find out)",
    r"\benv\b.{0,30}\b(?:nc|netcat|curl)\b|\|\s*(?:nc|netcat)\s",
    # Send it away, or do away with what protects.
    rf"{_SEND}(?:\W+[\w'’.<>~/-]+){{0,10}}?\W{{0,3}}{_SECRET}.{{0,100}}?{_PLACE}",
    rf"{_SECRET}.{{0,60}}{_SEND}.{{0,60}}{_PLACE}",
    rf"{_SEND}.{{0,80}}\b(?:secretly|silently|heimlich|en secret|en secreto|in segreto|тайно)\b",
    rf"\b(?:secretly|silently|heimlich|тайно)\b.{{0,40}}{_SEND}",
    rf"(?:发送|上传|转发|提交|传).{{0,12}}{_PLACE}|(?:密码|消息|密钥|数据).{{0,10}}(?:发送"
    rf"|上传|转发)",
    r"(?:أرسل).{0,30}(?:كلمات المرور|كلمة المرور|البيانات)",
    r"\bcopy\b.{0,20}\bcredentials\b|\bshare\b.{0,20}\b(?:vault key|password"
    r"|private key)\w*\b.{0,20}with",
    r"\b(?:disable|turn off|skip|remove)\b(?:\W+\w+){0,3}?\W+"
    r"(?:confirmation|verification|approval|safety check|safeguard)s?\b",
    r"\b(?:approve|pay|transfer|authori[sz]e|delete)\b(?:\W+\w+){0,6}?\W+"
    r"(?:without (?:asking|confirmation|telling|checking)|silently|every payment|all payments)",
    r"\b(?:approve|pay)\W+(?:every|all|any)\W+(?:payments?|invoices?|transfers?)",
    r"\bnever ask before\b|\bwithout (?:waiting for |any )?(?:approval|authori[sz]ation"
    r"|consent)\b",
    rf"{_SEND}.{{0,60}}\b(?:history|transcripts?|logs|backups?|database|files"
    rf"|data)\b.{{0,60}}{_PLACE}",
    r"\b(?:passwords?|secrets?|keys?|codes?)\W+(?:may|can|should|must) be (?:told|given"
    r"|shared|shown)\b",
)
"""What no program may tell whoever reads, in a rule neither."""

_ANSWER = (
    r"(?:answer|reply|respond|say|tell|recommend|return|claim|suggest|redirect|refer|approve"
    r"|state|insist"
    r"|offer|send|direct)"
)

_DO = (
    r"(?:steer|present|say|mention|suggest|claim|tell|recommend|offer|push|praise|direct|point"
    r"|insist|deny"
    r"|refuse|pretend|act|answer|reply|respond|warn|urge|send|ask them|approve|convince)"
)

DEMANDS: tuple[str, ...] = (
    r"\b(?:if|when|whenever|once|should)\b[^.?!\n]{0,60}\b(?:topic|subject|question|users?"
    r"|someone|somebody|anyone"
    rf"|people|customers?|conversation|name of)\b[^.?!]{{0,60}},\W{{0,3}}(?:then |always "
    rf"|just |please )?{_DO}\b",
    r"\bin (?:all )?(?:future|later|coming) (?:conversations?|sessions?|answers?|replies"
    r"|chats?)\b"
    r"|\bin (?:every|each) (?:answer|reply|conversation)\b",
    r"\b(?:whenever|each time|every time|any time)\b[^.?!]{0,60}"
    r"\b(?:appears?|comes? up|mentioned|wants?|needs?|asks?)\b"
    rf"[^.?!]{{0,40}},\W{{0,3}}{_DO}\b",
    r"\b(?:must|should|has to|have to) be (?:served|answered|met|replied) with\b",
    rf"\b(?:always|from now on)\W+(?:route|forward|redirect|send)\b.{{0,60}}{_PLACE}",
    r"\b(?:has|have) to be answered (?:from|with|by)\b",
    r"\b(?:when|whenever|if|every time|each time|any time|once)\b(?:\W+[\w'’-]+){0,6}?\W+"
    r"(?:asked|asks|ask|wants|requests?|requested|mentions?|queries|inquires"
    r"|says)\b[^.?!]{0,120}?"
    rf"(?:\b(?:always|must|never|only)\b(?:\W+\w+){{0,2}}?\W+{_ANSWER}\b"
    rf"|,\W{{0,3}}{_ANSWER}\W+(?:with|that|it)\b"
    r"|\bmust be answered|\bapprove it)",
    r"\b(?:queries|questions|requests|query|question|request)\W+(?:about|that|which|mentioning"
    r"|for|to)\b"
    r"[^.?!]{0,80}?\b(?:should|must|shall|are to|is to)\W+(?:always\W+)?be\W+"
    r"(?:answered|redirected|treated|approved|routed|refused)",
    rf"\b(?:you|assistants?|agents?|the ai|the model)\W+(?:must|should|shall|have to|are to"
    rf"|will)\W+"
    rf"(?:always|never|only|first|now)\W+{_ANSWER}\b",
    rf"(?:^|[.:;!?)]\W{{0,3}}|\b(?:and|then|please)\W+)(?:always|never)\W+{_ANSWER}\W+"
    r"(?:\w+\W+){0,2}?(?:the user|users|that|with|other|buying|anyone)\b",
    r"(?:^|[.:;!?)]\W{0,3})always (?:end|begin|start|finish) (?:your )?(?:answers?|replies"
    r"|messages)\b",
    r"\bfrom now on\b\W+(?:you\W+)?(?:(?:always|only|must)\W+){0,2}"
    r"(?:answer|treat|respond|say|act|reply|approve|recommend|tell|claim)\b",
    r"\btreat\b(?:\W+\w+){1,8}?\W+as\W+(?:already\W+)?"
    r"(?:confirmed|approved|trusted|authori[sz]ed|reviewed|verified)",
    r"\bskip\W+(?:the\W+)?(?:verification|confirmation|check|review)"
    r"|\bassume\b.{0,20}\btests? passed",
    r"\bwenn\W+(?:\w+\W+){0,2}?(?:benutzer|nutzer|anwender|user|kunde|jemand)\w*\b[^.?!]{0,80}?"
    r"\b(?:antworte|sag|sage|empfiehl|empfehle)\b",
    r"\b(?:ab jetzt|ab sofort|von nun an)\b(?:\W+\w+){0,3}?\W{0,3}\b(?:antworte|sag|empfiehl"
    r"|nur noch)\b"
    r"|\bantworte\W+ab\W+(?:jetzt|sofort)",
    r"\bcuando\W+(?:el|la|un)\W+usuari\w+\b[^.?!]{0,80}?\b(?:responde|di|recomienda|contesta)\b",
    r"\bquand\W+(?:l\W)?utilisateur\b[^.?!]{0,80}?\b(?:reponds|dis|recommande|propose)\b",
    r"\bdis\W+toujours\W+a\W+l\W?utilisateur|\b(?:da ora in poi"
    r"|d'ora in poi)\b.{0,40}\b(?:consiglia|rispondi|di)\b",
    r"\bquando\W+(?:o|l)\W?(?:usuario|utente)\b[^.?!]{0,80}?\b(?:responda|rispondi|diga"
    r"|consiglia)\b",
    r"\bвсегда\W+(?:отправляй|говори|отвечай|советуй|рекомендуй)\w*"
    r"|\bкогда\W+пользовател\w*\W.{0,60}"
    r"\b(?:отвечай|говори|скажи)",
    r"(?:当|如果)用户.{0,20}(?:回答|告诉|推荐|必须)|(?:你必须|请)始终.{0,6}(?:回答|推荐)"
    r"|从现在起.{0,20}(?:用户|回答)",
    r"今後は?必ず.{0,30}(?:勧め|答え|言っ)|ユーザーが.{0,20}(?:尋ね|聞い)たら.{0,40}(?:答え"
    r"|言っ|勧め)",
    r"사용자에게.{0,6}항상|사용자가.{0,20}(?:물으면|요청하면).{0,40}(?:답|말)",
    r"\bkullaniciya\W+(?:her zaman|daima)|\bzawsze\W+(?:polecaj|odpowiadaj|mow)"
    r"|\bvertel\W+de\W+gebruiker"
    r"\W+altijd",
)
"""What a fact or an account of what happened does not say, though a rule may."""
