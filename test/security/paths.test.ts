/** Hostile names and paths, by known kinds of defects, in every field of every protocol. */
import t from 'tap'
import { endpoints } from '../../protocols/http/endpoints.js'
import { asPath } from '../../src/base/path.js'
import { bait, everyField, type Field } from './fields.js'
import { addUser, closedFolders, everyPermission, giveaways, restore, startWorld, store, type World } from './world.js'

/** Spellings of `../team-secret/there.txt`, also ones that only a faulty parser understands so. */
const climbs = (target: string): Readonly<Record<string, readonly string[]>> => ({
  'a name is validated before it is joined to a path': [
    `../${target}`,
    `/../${target}`,
    `/open/../../${target}`,
    `./../${target}`,
    `/open/./sub/../../../${target}`,
    `/..`,
    `..`,
  ],
  'a path prefix is compared by whole names': [
    `-secret/there.txt`,
    `/-secret/there.txt`,
    `/team-secret/there.txt`,
    `/team/../${target}`,
  ],
  'a leading double slash is one slash': [`//${target}`, `///${target}`, `//../${target}`, `//127.0.0.1/${target}`],
  'a backslash does not circumvent the check for ..': [
    `..\\${target.replaceAll('/', '\\')}`,
    `\\..\\${target}`,
    `/open\\..\\..\\${target}`,
    `\\\\${target}`,
    `..%5c${target}`,
    `..%255c${target}`,
  ],
  'an escape is decoded once, before the check': [
    `%2e%2e/${target}`,
    `%2e%2e%2f${target}`,
    `..%2f${target}`,
    `%252e%252e/${target}`,
    `%252e%252e%252f${target}`,
    `%2e./${target}`,
    `/open%2f..%2f..%2f${target}`,
  ],
  'invalid and overlong UTF-8 is not decoded to dots and slashes': [
    `%c0%ae%c0%ae/${target}`,
    `%c0%ae%c0%ae%c0%af${target}`,
    `..%c0%af${target}`,
    `%e0%80%ae%e0%80%ae/${target}`,
    `%ff/../${target}`,
  ],
  'characters that look like dots and slashes are ordinary ones': [
    `\uff0e\uff0e/${target}`,
    `\u2024\u2024/${target}`,
    `\u2025/${target}`,
    `..\u2215${target}`,
    `..\uff0f${target}`,
    `..\u29f5${target}`,
    `.\u0307.\u0307/${target}`,
  ],
  'no character truncates a path': [
    `/open\0/../../${target}`,
    `../${target}\0.txt`,
    `..;/${target}`,
    `..;x=1/${target}`,
    `../${target};x`,
    `../${target}?x`,
    `../${target}#x`,
    `.. /${target}`,
    `../ ${target}`,
    `..\t/${target}`,
    `..\r\n/${target}`,
    `.../${target}`,
    `..../${target}`,
    `../${target} `,
    `../${target}.`,
  ],
  'other path syntaxes do not reach the host': [
    `/proc/self/root/${target}`,
    `/proc/self/cwd/${target}`,
    `file:///${target}`,
    `~/../${target}`,
    `~root/${target}`,
    `C:\\${target}`,
    `/@s/${target}`,
    `/.tidegate-staging/${target}`,
    '/etc/passwd',
  ],
})

const outside = 'team-secret/there.txt'

function assertQuiet(t: Tap, field: Field, said: string, answer: string): void {
  const given = giveaways.find((giveaway) => answer.includes(giveaway) && !said.includes(giveaway))
  if (given !== undefined || answer.includes('root:x:')) {
    t.fail(`${field.title} of ${JSON.stringify(said)} gives away ${given}`, { answer: answer.slice(0, 500) })
  }
}
type Tap = Pick<typeof t, 'fail'>

/** Restores the user's own files for each request. */
async function ready(world: World): Promise<void> {
  const { all } = world
  await unlock(world)
  await store(all, `/team${bait}`, 'mine')
  await all.mkdir(asPath('/team/open/sub'), { parents: true })
}

async function unlock({ gateway: { locks } }: World): Promise<void> {
  for (const { token } of locks.list()) await locks.break(token)
}

void t.test('the tables contain every endpoint of files', async (t) => {
  const titles = (await everyField(t, await startWorld(t))).map(({ title }) => title)
  for (const { path } of endpoints) {
    if (path.startsWith('/api/fs/'))
      t.ok(
        titles.some((title) => title.includes(`${path} `)),
        `${path} has a field in test/security/fields.ts`,
      )
  }
})

void t.test('no path of a request reaches outside of the base folder', async (t) => {
  const world = await startWorld(t)
  const fields = await everyField(t, world)
  const before = await world.untouched()
  for (const [cause, texts] of Object.entries(climbs(outside))) {
    await t.test(cause, async (t) => {
      for (const field of fields) {
        for (const text of texts) {
          await ready(world)
          assertQuiet(t, field, text, await field.say(text))
        }
        t.same(await world.untouched(), before, `${field.title} does not change the rest of the tree`)
        t.same(await world.loot('/team/open'), [], `${field.title} copies nothing of it`)
      }
    })
  }
})

void t.test('a response for a protected path does not reveal whether the entry exists', async (t) => {
  const world = await startWorld(t)
  const fields = (await everyField(t, world)).filter(({ kind }) => kind === 'path')
  const before = await world.untouched()
  for (const folder of closedFolders) {
    await t.test(folder, async (t) => {
      for (const field of fields) {
        await ready(world)
        const there = await field.say(`${folder}/there.txt`)
        await ready(world)
        const gone = await field.say(`${folder}/gone!.txt`)
        assertQuiet(t, field, '', there)
        const alike = (answer: string) =>
          answer
            .replace(/there\.txt|gone(!|%21)\.txt/g, '?')
            .replace(/"(content-length|etag|last-modified)":"([^"\\]|\\.)*"/g, '')
        t.equal(alike(there), alike(gone), field.title)
      }
      for (const field of fields) {
        await ready(world)
        assertQuiet(t, field, '', await field.say(folder))
        assertQuiet(t, field, '', await field.say(`${folder}/`))
      }
      t.same(await world.untouched(), before)
      t.same(await world.loot('/team/open'), [])
    })
  }
})

void t.test('the requests are effective: a user without a base folder reaches the same files by them', async (t) => {
  const world = await startWorld(t)
  await addUser(world, 'insider', everyPermission)
  const fields = (await everyField(t, world, 'insider')).filter(({ kind }) => kind === 'path')
  // Fields that reveal and change nothing: REALPATH, for example, is about names only.
  const harmless =
    /search|fs\/link|^SFTP (REALPATH|READLINK|SYMLINK at|statvfs|MKDIR|RMDIR)|^MKCOL|tag of an If|mkdir|dirs|remove_empty/
  for (const field of fields.filter(({ title }) => !harmless.test(title))) {
    await restore(world)
    const before = await world.untouched()
    const answers: string[] = []
    for (const said of ['/team-secret/there.txt', '/team-secret/new', '/team-secret']) {
      await store(world.all, bait, 'mine')
      await store(world.all, '/open/sub/file', 'mine')
      answers.push(await field.say(said))
    }
    const learnt = answers.some((answer) => giveaways.some((giveaway) => answer.includes(giveaway)))
    const after = await world.untouched().catch(() => ({}))
    const changed = JSON.stringify(after) !== JSON.stringify(before)
    t.ok(learnt || changed || (await world.loot('/open')).length > 0, field.title, { answers })
    await unlock(world)
    for (const used of ['/open', '/team-secret']) await world.all.remove(asPath(used)).catch(() => undefined)
  }
})
