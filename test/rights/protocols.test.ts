/**
 * The answers of a daemon to generated questions over each protocol, compared with those of the model of rights.
 * `TIDEGATE_RIGHTS_PROTOCOL_CASES` is the number of questions for each protocol, and `TIDEGATE_RIGHTS_SEED` the first
 * seed of their worlds: that of a failure repeats it.
 */
import t from 'tap'
import '../fast-hashes.js'
import { isWithin, nameOf, parentOf, root, type Path } from '../../src/base/path.js'
import type { ErrorCode } from '../../src/base/errors.js'
import { withoutNodes } from '../gateway.js'
import { Random } from '../soak/chaos/random.js'
import { askable } from './asking.js'
import { generateQuestion, generateWorld } from './generate.js'
import { decide, visible, type Question, type Symlink, type World } from './model.js'
import { ownPath, protocolsUnderTest, type ProtocolUnderTest, type Reply, type Request } from './requests.js'
import { isAboveBase, runningTree, storable, type RunningTree } from './running-tree.js'

const cases = Number(process.env.TIDEGATE_RIGHTS_PROTOCOL_CASES ?? 60)
const firstSeed = Number(process.env.TIDEGATE_RIGHTS_SEED ?? 0)
const questionsOfWorld = 20
/** Maximum differences that are told; more would not be read. */
const maxTold = 10

void t.test(
  `${cases} generated questions over each protocol are answered as by the model`,
  { skip: withoutNodes },
  async (t) => {
    const tree = await runningTree(t)
    const differences: unknown[] = []
    const asked = new Map(protocolsUnderTest.map(({ name }) => [name, 0]))
    const isOpen = ({ name }: ProtocolUnderTest) => (asked.get(name) ?? 0) < cases
    for (let seed = firstSeed; protocolsUnderTest.some(isOpen) && differences.length < maxTold; seed++) {
      const world = storable(generateWorld(seed))
      await tree.show(world)
      for (const protocol of protocolsUnderTest.filter(isOpen)) {
        const random = new Random(seed)
        for (let number = 0; number < questionsOfWorld && isOpen(protocol); number++) {
          const ready = askable(world, protocol.adapted(generateQuestion(world, random)))
          const request = ready && protocol.requestOf(ready.world, ready.question)
          if (ready === undefined || request === undefined) continue
          asked.set(protocol.name, (asked.get(protocol.name) ?? 0) + 1)
          const difference = await compare({ tree, protocol, ...ready, request })
          if (difference) differences.push({ seed, ...difference, ...told(ready.world, ready.question) })
        }
      }
    }
    t.same(differences.slice(0, maxTold), [])
    for (const [name, count] of asked) t.ok(count >= cases, `${name}: ${count}`)
  },
)

/** What the model says of a request. */
interface Verdict {
  /** The error as the client is told it; undefined if the request succeeds. */
  readonly error: ErrorCode | undefined
  /** The path that is not seen, if that decides. */
  readonly unseen: Path | undefined
  /** Everything is permitted. */
  readonly isDone: boolean
}

/** What the first refusal of what the request asks of the tree leads to. */
function verdictOn(world: World, { asked }: Request): Verdict {
  for (const { question, told } of asked) {
    const { error, decidedBy } = decide(world, question)
    if (error === undefined) continue
    const code = told?.[error] ?? error
    const isLast = question === asked.at(-1)?.question
    if (code === 'nothing' && !isLast) continue
    const unseen = decidedBy.step === 'notSeen' ? decidedBy.path : undefined
    return { error: code === 'nothing' ? undefined : code, unseen, isDone: false }
  }
  return { error: undefined, unseen: undefined, isDone: true }
}

interface Subject {
  readonly tree: RunningTree
  readonly protocol: ProtocolUnderTest
  readonly world: World
  readonly question: Question
  readonly request: Request
}

/** What the model says and what the protocol answers, if that differs. */
async function compare({ tree, protocol, world, question, request }: Subject): Promise<object | undefined> {
  const visitor = tree.visitor(question.user)
  const verdict = verdictOn(world, request)
  if (verdict.isDone && asksOfMembers(world, question)) return undefined
  await tree.fill(world)
  const reply = await request.send(visitor)
  const moves = question.action === 'rename' || question.action === 'move'
  await tree.restore(verdict.isDone && moves)
  const { unseen } = verdict
  if (!isExpected(protocol, request, verdict, reply)) return { model: verdict, reply }
  if (unseen !== undefined && !isAboveBase(world, question.user, unseen)) {
    await tree.fill(world)
    await tree.flip(world, unseen)
    const other = await request.send(visitor)
    if (other.text !== reply.text) return { what: 'it tells what exists', unseen, reply, other }
  }
  if (question.action !== 'see' || !verdict.isDone || throughSymlink(world, question)) return undefined
  const names = await protocol.names(visitor, question, ownPath(world, question, question.path))
  const seen = names && namesSeen(world, question)
  return String(names) === String(seen) ? undefined : { model: seen, names }
}

/**
 * Whether what is in the folder may be refused by what the model does not know: a relative symlink leads elsewhere from
 * another folder, and a copy over HTTP replaces what is in a folder item by item.
 */
function asksOfMembers({ entries, symlinks }: World, { action, path, to, protocol, replaces }: Question): boolean {
  if (to === undefined) return false
  const hasSymlink = symlinks.some((each) => isWithin(path, each.path))
  if (hasSymlink && parentOf(path) !== parentOf(to)) return true
  const replaced = entries.find((each) => each.path === to)
  return action === 'copy' && protocol === 'http' && replaces === true && replaced?.kind === 'folder'
}

const refusals: readonly ErrorCode[] = ['denied', 'hidden', 'password_required', 'not_found', 'parent_missing']

function isExpected(
  protocol: ProtocolUnderTest,
  { asked, isLoose = false, instead = {} }: Request,
  { error }: Verdict,
  { outcome }: Reply,
): boolean {
  if (error === undefined) return outcome === 'done'
  const outcomes = (isLoose ? refusals : [error, instead[error] ?? error]).flatMap((each) =>
    asked.flatMap(({ question }) => protocol.outcomesOf(each, question)),
  )
  return outcomes.includes(outcome) || (isLoose && outcome === 'target_missing')
}

function throughSymlink({ symlinks }: World, { path }: Question): boolean {
  return symlinks.some((each) => path.startsWith(each.path))
}

function namesSeen(world: World, question: Question): readonly string[] {
  const { user: id, path, protocol } = question
  const user = world.users.find((each) => each.id === id)
  const isAllowed = (action: 'see' | 'read', target: Path) =>
    decide(world, { ...question, action, path: target }).allowed
  // Listings of WebDAV omit symlinks that cannot be followed.
  const isShown = ({ target }: Symlink) =>
    protocol !== 'webdav' || isAllowed('see', target) || isAllowed('read', target)
  const all = [...world.entries, ...world.symlinks.filter(isShown)].map((each) => each.path)
  const names = all.filter((each) => each !== root && parentOf(each) === path).map(nameOf)
  return user ? [...visible(world, user, path, names)].sort() : []
}

/** What a difference may depend on. */
function told({ users, groups, grants, ...world }: World, question: Question) {
  const own = groups.filter(({ members }) => members.includes(question.user))
  return {
    question,
    user: users.find(({ id }) => id === question.user),
    groups: own,
    grants: grants.filter(({ subject }) =>
      'user' in subject ? subject.user === question.user : own.some(({ id }) => id === subject.group),
    ),
    ...world,
  }
}
