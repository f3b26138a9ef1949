"""Words that say little by themselves, in several languages: a text is known by the others."""

from functools import cache

from butlers.kernel.words import folded, prepared

_WORDS = """
a about after again all also always am an and another any anyone are as at away be because been
before being between both but by came can cannot come comes could currently day days did do does
doing done down during each either else enjoys enough even ever every few find finds for from gave
get gets give given gives go goes going gone good got great had has have having he hello help helps
her here hers him his how i if in into is it its itself just keep keeps kept know known knows last
like liked likes live lives lived made make makes making many may me mentioned might more most much
must my named name need needs never new next no nor not now of off often on once one only or other
others our out over own owns part people person plan planned plans please prefer preferred prefers
put rather really regularly said same say says see seen set she should since so some somebody
someone something sometimes soon still such take takes taken than that the their them then there
these they thing things this those through time to today told too took toward two under until up us
use used user uses using usually very via want wanted wants was we week well went were what when
where whether which while who whom whose why will wish wishes with within without work worked works
would year years yes yesterday you your named called currently decided does going moved states
stated told tell tells current month months tomorrow always
january february march april june july august september october november december monday tuesday
wednesday thursday friday saturday sunday
aber alle allem allen aller alles als also am an auch auf aus bei beim bin bis bist da dabei damit
dann das dass dein dem den denn der des dich die dies diese dieser dieses doch dort du durch ein
eine einem einen einer eines er es etwas euch euer fur gegen gerade gern gerne gut haben habe hat
hatte hier ich ihm ihn ihr ihre im immer in ist ja jede jeder jetzt kann kein keine konnen lebt
lieber liegt machen macht mag man mehr mein meine mich mir mit mochte muss nach nicht nichts nie
noch nun nur ob oder ohne schon sehr sein seine seit sich sie sind so soll sollte statt um und uns
unser unter viel vom von vor war was weil wenn wer werden wie wieder will wir wird wo wohnt zu zum
zur zwei arbeitet bevorzugt benutzt verwendet heisst januar februar marz mai juni juli oktober
dezember montag dienstag mittwoch donnerstag freitag samstag sonntag
aime alors apres au aucun aussi autre aux avant avec avoir bien car ce cela ces cet cette chaque
chez comme comment dans de des deux donc du elle elles en encore est et ete etre eu eux fait faire
fois habite il ils je jamais la le les leur leurs lui ma mais me meme mes moi moins mon ne ni nos
notre nous on ont ou par pas peu plus plutot pour prefere pres qu quand que quel quelle qui quoi sa
sans se ses si son sont sous sur ta te toi ton toujours tous tout toute tres tu un une utilise va
vers veut vos votre vous travaille appelle janvier fevrier mars avril juin juillet aout septembre
octobre novembre decembre lundi mardi mercredi jeudi vendredi samedi dimanche
algo antes aqui asi aun cada casi como con contra cual cuando de del desde donde dos el ella ellas
ellos entre era es esa ese eso esta este esto estos fue gusta ha hace hacer hasta hay la las le les
lo los mas me mi mis mucho muy nada ni no nos nunca otra otro para pero poco por porque prefiere
puede que quien quiere se ser si siempre sin sobre solo son su sus tambien tan tanto te tiene todo
todos trabaja tu un una uno unos usa usted vive ya yo llama enero febrero marzo abril mayo junio
julio agosto septiembre octubre noviembre diciembre lunes martes miercoles jueves viernes sabado
domingo
abita ai al alla anche ancora bene che chi ci come con cosa da dal dalla degli dei del della delle
di dopo dove e ecco ed fa fare fra gli ha hanno ho i il in io la lavora le lei li lo loro lui ma mai
mi mia mio molto ne nel nella no noi non nostro o ogni per perche piu poi preferisce prima quale
quando quello questa questo qui sara se sempre senza si sia sono sopra sotto sta su sua suo tra
tutti tutto un una uno va vi vive voi vuole chiama piace gennaio febbraio aprile maggio giugno
luglio settembre ottobre dicembre
ainda ao aos aqui as ate com como da das de depois do dos ela ele eles em entao era essa esse esta
este eu foi gosta isso ja lhe mais mas mesmo meu minha muito na nao nas nem no nos nossa nosso num
nunca o os ou para pela pelo por prefere quando que quem sao se sem sempre ser seu sua tambem tem
ter trabalha tudo um uma usa voce mora janeiro fevereiro maio junho julho setembro outubro dezembro
aan al alles als altijd bij daar dan dat de der deze die dit doen door dus een en er geen gaat had
heb hebben heeft het hier hij hoe ik in is ja je kan maar meer met mij mijn moet na naar niet nog nu
of om omdat ons ook op over te tegen toch tot u uit van veel voor waar wat we weer wel werkt wie wij
wil woont wordt ze zich zij zijn zo zonder
без бы был была были быть в вам вас весь во вот все всегда вы да для до его ее если есть еще же за и
из или им их к как когда который кто ли любит мне много может мой мы на надо наш не нет ни никогда
но ну о об он она они оно от очень по под потом потому предпочитает при с сам свой себя со так также
там тебя тем теперь то только тот ты у уже хочет чем что чтобы эта это этот я живет работает зовут
январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь
"""


@cache
def plain_words() -> frozenset[str]:
    """All of them, spelt as `prepared` spells the words of a folded text."""
    return frozenset(prepared(folded(_WORDS)).split())
