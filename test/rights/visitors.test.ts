/**
 * The answers of the tree to visitors of generated shares, compared with those of the model: they may do what the
 * creator may do and the mode permits. `TIDEGATE_RIGHTS_CASES` is the number of questions, and `TIDEGATE_RIGHTS_SEED`
 * the first seed of their worlds: that of a failure repeats it.
 */
import t from 'tap'
import { asPath, isWithin, nameOf, parentOf, root, type Path } from '../../src/base/path.js'
import { Random } from '../soak/chaos/random.js'
import { askable } from './asking.js'
import { frozenTree, type FrozenTree } from './frozen-tree.js'
import { generateQuestion, generateWorld } from './generate.js'
import { decide, visible, type Question, type Share, type User, type World } from './model.js'

const cases = Number(process.env.TIDEGATE_RIGHTS_CASES ?? 1000)
const firstSeed = Number(process.env.TIDEGATE_RIGHTS_SEED ?? 0)
const sharesOfWorld = 4
const questionsOfShare = 15
/** Maximum differences that are told; more would not be read. */
const maxTold = 10

void t.test(`${cases} generated questions of visitors of shares are answered as by the model`, async (t) => {
  const tree = await frozenTree(t)
  const differences: unknown[] = []
  /** What was asked in which mode, and whether it was allowed. */
  const kinds = new Set<string>()
  let asked = 0
  for (let seed = firstSeed; asked < cases && differences.length < maxTold; seed++) {
    const generated = generateWorld(seed)
    const random = new Random(seed)
    for (let number = 0; number < sharesOfWorld; number++) {
      const creator = withShare(generated, random)
      const world = { ...generated, users: generated.users.map((user) => (user.id === creator.id ? creator : user)) }
      const opening = plain({ user: creator.id, action: 'share', path: creator.share.root, protocol: 'http', time: 0 })
      for (const ready of [{ world, question: opening }, ...questionsIn(world, creator, random)]) {
        asked++
        const difference = await compare(tree, ready.world, ready.question)
        if (difference) differences.push({ seed, ...difference, ...told(ready.world, creator, ready.question) })
        const { allowed } = decide(ready.world, ready.question)
        // Nobody opens a share that cannot be opened.
        if (ready.question === opening && !allowed) break
        kinds.add(`${creator.share.mode}: ${ready.question.action} is ${allowed ? 'allowed' : 'refused'}`)
      }
    }
  }
  t.same(differences.slice(0, maxTold), [])
  t.ok(asked >= cases)
  if (firstSeed !== 0) return
  for (const kind of ['read: read is allowed', 'upload: write is allowed', 'both: write is allowed'] as const) {
    t.ok(kinds.has(kind), kind)
  }
  t.ok(kinds.has('both: copy is allowed') && kinds.has('both: write is refused'))
  for (const taking of ['remove', 'rename', 'move']) t.notOk(kinds.has(`both: ${taking} is allowed`), taking)
})

void t.test('what leads to something that is shared is seen, and nothing else is done with it', async (t) => {
  const tree = await frozenTree(t)
  const [way, below] = [asPath('/a'), asPath('/a/b')]
  const creator: Creator = {
    id: 3,
    role: 'general',
    permissions: ['share', 'write', 'copy'],
    base: root,
    grantedOnly: false,
    expires: undefined,
    allowFrom: [],
    share: { root, mode: 'both' },
  }
  const subject = { user: creator.id }
  const world: World = {
    users: [creator],
    groups: [],
    grants: [
      { id: 1, subject, path: way, allow: [], deny: ['share'] },
      { id: 2, subject, path: below, allow: ['see', 'read', 'share'], deny: [] },
    ],
    rules: [],
    entries: [
      { path: way, kind: 'folder' },
      { path: below, kind: 'file' },
      { path: asPath('/a/c'), kind: 'file' },
    ],
    symlinks: [],
  }
  for (const [action, path, expected] of [
    ['see', way, undefined],
    ['read', below, undefined],
    ['write', way, 'denied'],
    ['see', asPath('/a/c'), 'not_found'],
  ] as const) {
    for (const time of [0, 2]) {
      const question: Question = { user: creator.id, action, path, protocol: 'http', time, makes: false }
      t.equal(decide(world, question).error, expected, `${action} ${path}`)
      t.equal(await compare(tree, world, question), undefined, `${action} ${path} ${time}`)
    }
  }
})

type Creator = User & { readonly share: Share }

/** One of the users, who shares something at or below the base folder. */
function withShare({ users, entries }: World, random: Random): Creator {
  const creator = random.of(users)
  if (creator === undefined) throw new Error('nobody shares anything')
  const inside = entries.filter(({ path }) => isWithin(creator.base, path))
  const shared = random.next() < 0.2 ? undefined : random.of(inside)
  const mode = random.of(['read', 'upload', 'both'] as const) ?? 'read'
  // Networks of the creator do not bind visitors, and the end of an account ends the share before anything is asked.
  return { ...creator, expires: undefined, allowFrom: [], share: { root: shared?.path ?? creator.base, mode } }
}

/** Questions about paths of the share, in worlds in which nothing but a decision refuses them. */
function questionsIn(world: World, creator: Creator, random: Random) {
  const { root: shared, mode } = creator.share
  const asking = { ...world, users: [{ ...creator, base: shared, grantedOnly: false }] }
  return Array.from({ length: questionsOfShare }).flatMap(() => {
    const drawn = plain(generateQuestion(asking, random))
    const isInside = [drawn.path, drawn.to ?? drawn.path].every((path) => isWithin(shared, path))
    if (!isInside || drawn.to === shared) return []
    const ready = askable(world, mode === 'upload' ? asUpload(drawn) : asVisitor(drawn))
    // A folder is not uploaded to by its own name.
    const isUploaded = mode !== 'upload' || ready?.question.action !== 'write' || ready.question.makes === true
    return ready === undefined || !isUploaded ? [] : [ready]
  })
}

/** Visitors have no credentials but the share. */
function plain({ user, action, path, to, time, makes, reads, wholeTree, replaces }: Question): Question {
  return {
    ...{ user, action, path, protocol: 'http' as const, time },
    ...(to !== undefined && { to }),
    ...(makes !== undefined && { makes }),
    ...(reads !== undefined && { reads }),
    ...(wholeTree !== undefined && { wholeTree }),
    ...(replaces !== undefined && { replaces }),
  }
}

/** Most properties cannot be set by visitors, whatever the path: another operation is chosen for these. */
function asVisitor(question: Question): Question {
  const { action, time } = question
  return action === 'write' && time % 3 === 1 ? { ...question, time: time + 1 } : question
}

/** A file is written, and nothing else is. */
function asUpload(question: Question): Question {
  return question.action === 'write'
    ? { ...question, time: 0, makes: true, reads: false, wholeTree: false }
    : asVisitor(question)
}

/** What the model says and what the tree answers, if that differs. */
async function compare(tree: FrozenTree, world: World, question: Question) {
  await tree.show(world)
  const { error, decidedBy } = decide(world, question)
  const answer = await tree.answer(question).catch(String)
  if (answer !== error) return { model: error, step: decidedBy.step, answer }
  if (question.action !== 'see' || throughSymlink(world, question)) return undefined
  const names = await tree.names(question)
  const seen = names && namesSeen(world, question)
  return String(names) === String(seen) ? undefined : { model: seen, answer: names }
}

function throughSymlink({ symlinks }: World, { path }: Question): boolean {
  return symlinks.some((each) => path.startsWith(each.path))
}

function namesSeen(world: World, { user: id, path }: Question): readonly string[] {
  const user = world.users.find((each) => each.id === id)
  const all: readonly Path[] = [...world.entries, ...world.symlinks].map((each) => each.path)
  const names = all.filter((each) => each !== root && parentOf(each) === path).map(nameOf)
  return user ? [...visible(world, user, path, names)].sort() : []
}

/** What a difference may depend on. */
function told({ users: _users, groups, grants, ...world }: World, creator: User, question: Question) {
  const own = groups.filter(({ members }) => members.includes(creator.id))
  return {
    question,
    creator,
    groups: own,
    grants: grants.filter(({ subject }) =>
      'user' in subject ? subject.user === creator.id : own.some(({ id }) => id === subject.group),
    ),
    ...world,
  }
}
