/**
 * The answers of the tree to generated questions, compared with those of the model of rights. `TIDEGATE_RIGHTS_CASES`
 * is the number of questions, and `TIDEGATE_RIGHTS_SEED` the first seed of their worlds: that of a failure repeats it.
 */
import t from 'tap'
import { Random } from '../soak/chaos/random.js'
import { isWithin, nameOf, parentOf, root, type Path } from '../../src/base/path.js'
import type { ExplainedAccess } from '../../src/tree/decisions.js'
import { askable } from './asking.js'
import { frozenTree, type FrozenTree } from './frozen-tree.js'
import { generateQuestion, generateWorld } from './generate.js'
import {
  decide,
  decideAt,
  kinds,
  needsSignature,
  visible,
  type Decision,
  type Entry,
  type Question,
  type User,
  type World,
} from './model.js'

const cases = Number(process.env.TIDEGATE_RIGHTS_CASES ?? 2000)
const firstSeed = Number(process.env.TIDEGATE_RIGHTS_SEED ?? 0)
const questionsOfWorld = 40
/** Maximum differences that are told; more would not be read. */
const maxTold = 10

void t.test(`${cases} generated questions are answered as by the model`, async (t) => {
  const tree = await frozenTree(t)
  const differences: unknown[] = []
  let asked = 0
  for (let seed = firstSeed; asked < cases && differences.length < maxTold; seed++) {
    const generated = generateWorld(seed)
    const random = new Random(seed)
    for (let number = 0; number < questionsOfWorld; number++) {
      const ready = askable(generated, generateQuestion(generated, random))
      if (!ready) continue
      asked++
      const difference = await compare(tree, ready.world, ready.question)
      if (difference) differences.push({ seed, ...difference, ...told(ready.world, ready.question) })
    }
  }
  t.same(differences.slice(0, maxTold), [])
  t.ok(asked >= cases)
})

void t.test(`${cases} generated decisions are explained by the step and the grant of the model`, async (t) => {
  const tree = await frozenTree(t)
  const differences: unknown[] = []
  const causes = new Set<string>()
  let asked = 0
  for (let seed = firstSeed; asked < cases && differences.length < maxTold; seed++) {
    const world = generateWorld(seed)
    const random = new Random(seed)
    await tree.show(world)
    for (let number = 0; number < questionsOfWorld; number++, asked++) {
      const question = ofName(generateQuestion(world, random))
      const { access, code } = tree.explained(question)
      causes.add(access.decidedBy.cause)
      const answer = whyBy(access)
      const model = whyOf(decideAt({ ...world, symlinks: [] }, question))
      const isInBase = access.decidedBy.cause !== 'base'
      const isOfOnePath = !['rename', 'move', 'copy'].includes(question.action) && question.path !== root
      const plain = isOfOnePath ? whyOf(decide(withFile(world, question.path), question)) : model
      if (answer === model && answer === plain && (code === access.refusal?.code || !isInBase)) continue
      differences.push({ seed, model, plain, answer, judged: code, ...told(world, question) })
    }
  }
  t.same(differences.slice(0, maxTold), [])
  t.ok(causes.size >= 14, `${causes.size} causes decide: ${[...causes].join(', ')}`)
})

/** The question about a user and one path, of which the tree knows nothing but its name. */
function ofName({ user, action, path, protocol, time, network, revoked }: Question): Question {
  return {
    ...{ user, action, path, protocol, time, makes: action === 'write' },
    ...(network !== undefined && { network }),
    ...(revoked !== undefined && { revoked }),
  }
}

/** The world with a file at the path, and without symlinks. */
function withFile(world: World, path: Path): World {
  const file: Entry = { path, kind: 'file' }
  return { ...world, symlinks: [], entries: [...world.entries.filter((each) => !isWithin(path, each.path)), file] }
}

function whyOf({ error, decidedBy: { step, grant, rule } }: Decision): string {
  const subject = grant && ('user' in grant.subject ? `user ${grant.subject.user}` : `group ${grant.subject.group}`)
  const by = grant ? `grant ${grant.id} of ${subject} at ${grant.path}` : (rule?.path ?? '')
  const cause = step.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  return `${error ?? 'allowed'} by ${cause} (${kinds[step]}) ${by}`
}

function whyBy({ refusal, decidedBy: { cause, kind, grants, rule } }: ExplainedAccess): string {
  const [grant] = grants
  const subject = grant?.userId === undefined ? `group ${grant?.groupId}` : `user ${grant.userId}`
  // The model does not say to which grant a way leads.
  const isTold = grant && (refusal !== undefined || cause !== 'way')
  const by = isTold ? `grant ${grant.id} of ${subject} at ${grant.path}` : (rule?.path ?? '')
  return `${refusal?.code ?? 'allowed'} by ${cause} (${kind}) ${by}`
}

/** What the model says and what the tree answers, if that differs. */
async function compare(tree: FrozenTree, world: World, question: Question) {
  await tree.show(world)
  const { error, decidedBy } = decide(world, question)
  const answer = await tree.answer(question).catch(String)
  if (answer !== error) return { model: error, step: decidedBy.step, answer }
  if (needsSignature(world, question.path) !== tree.needsSignature(question.path)) return { what: 'signature' }
  if (question.action !== 'see' || question.signed !== undefined || throughSymlink(world, question)) return undefined
  const names = await tree.names(question)
  const seen = names && namesSeen(world, question)
  return String(names) === String(seen) ? undefined : { model: seen, answer: names }
}

function throughSymlink({ symlinks }: World, { path }: Question): boolean {
  return symlinks.some((each) => path.startsWith(each.path))
}

function namesSeen(world: World, { user, path }: Question): readonly string[] {
  const all = [...world.entries, ...world.symlinks].map((each) => each.path)
  const names = all.filter((each) => each !== root && parentOf(each) === path).map(nameOf)
  return [...visible(world, userOf(world, user), path, names)].sort()
}

function userOf({ users }: World, id: number): User {
  const user = users.find((each) => each.id === id)
  if (!user) throw new Error(`no user ${id}`)
  return user
}

/** What a difference may depend on. */
function told({ users, groups, grants, ...world }: World, question: Question) {
  const { user } = question
  const own = groups.filter(({ members }) => members.includes(user))
  return {
    question,
    user: users.find(({ id }) => id === user),
    groups: own,
    grants: grants.filter(({ subject }) =>
      'user' in subject ? subject.user === user : own.some(({ id }) => id === subject.group),
    ),
    ...world,
  }
}
