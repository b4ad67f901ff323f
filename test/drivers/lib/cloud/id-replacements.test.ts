/** What becomes of replacements by ids that were interrupted, also of those that an older version has stored. */
import t, { type Test } from 'tap'
import { IdReplacements } from '../../../../drivers/lib/cloud/id-replacements.js'
import { undefinedIfMissing } from '../../../../src/base/errors.js'
import { testEnv } from '../../env.js'
import { IdDrive, rootId } from '../../id-drive.js'
import { memoryState } from './vendor.js'

const [staged, aside] = ['.~tidegate-part-gone-0123456789ab', 'file~replaced-00000000']

function replacementsOf(drive: IdDrive, isUnique: boolean) {
  const memory = memoryState()
  const nodeOf = (id: string) => drive.get(id) ?? { parent: '', name: '' }
  const replacements = new IdReplacements({
    calls: {
      rename: ({ id }, name) => drive.move(id, nodeOf(id).parent, name),
      move: ({ id }, folder) => drive.move(id, folder, nodeOf(id).name),
      remove: ({ id }) => undefinedIfMissing(drive.remove(id)),
      placeOf: async (id, folders) => (folders.includes(nodeOf(id).parent) ? nodeOf(id) : undefined),
    },
    env: testEnv({ state: memory.state }),
    keys: ['publications', 'replacements'],
    ...(isUnique && { unique: { members: (folder) => drive.list(folder), lag: 5 } }),
  })
  return { memory, replacements }
}

/** Settles what is left of a replacement, with these names of the two files. Checks what the names lead to then. */
async function settles(t: Test, isUnique: boolean, names: readonly (string | undefined)[], left: object) {
  for (const isFormer of [true, false]) {
    const drive = new IdDrive()
    const made = async (name: string | undefined, content: string) =>
      name === undefined ? { id: content } : drive.create(rootId, name, Buffer.from(content))
    const [old, next] = [await made(names[0], 'old'), await made(names[1], 'new')]
    if (Object.values(left).includes('other')) await made('file', 'other')
    const { memory, replacements } = replacementsOf(drive, isUnique)
    const replaced = { id: old.id, parent: rootId }
    const stored = isFormer
      ? { folderId: rootId, name: 'file', oldId: old.id, newId: next.id }
      : { id: next.id, places: [{ parent: rootId, name: 'file' }], replaced }
    await memory.state.set('replacements', JSON.stringify([stored]))
    await replacements.load()
    t.ok(replacements.isNeeded(next.id))
    await replacements.settle()
    const found = (await drive.list(rootId)).map(({ name, content }) => [name, content.toString()])
    t.same(Object.fromEntries(found), left, `${names.join(' and ')}, ${isFormer ? 'of an older version' : 'now'}`)
    t.equal(found.length, Object.keys(left).length)
    t.equal(memory.values.size, 0)
    await replacements.close()
  }
}

await t.test('where files can have one name', async (t) => {
  await settles(t, false, ['file', 'file'], { file: 'new' })
  await settles(t, false, ['file', staged], { file: 'old', [staged]: 'new' })
  await settles(t, false, ['kept', 'file'], { kept: 'old', file: 'new' })
  await settles(t, false, ['file'], { file: 'old' })
})

await t.test('where the old file was set aside', async (t) => {
  await settles(t, true, [aside, 'file'], { file: 'new' })
  await settles(t, true, ['file', staged], { file: 'old' })
  await settles(t, true, [aside, staged], { file: 'old' })
  await settles(t, true, [aside], { file: 'old' })
  await settles(t, true, [undefined, staged], { file: 'new' })
  await settles(t, true, [aside, staged], { file: 'other', [aside]: 'old', [staged]: 'new' })
})

await t.test('a move over a file that was set aside is completed from the name that it has meanwhile', async (t) => {
  const drive = new IdDrive()
  const folder = await drive.create(rootId, 'folder')
  const moved = await drive.create(folder.id, 'spare', Buffer.from('moved'))
  const old = await drive.create(folder.id, aside, Buffer.from('old'))
  const { memory, replacements } = replacementsOf(drive, true)
  const places = [rootId, folder.id].map((parent) => ({ parent, name: 'spare' }))
  const replacement = { id: moved.id, places: [...places, { parent: folder.id, name: 'file' }] }
  await memory.state.set('publications', JSON.stringify([{ ...replacement, replaced: { ...old, parent: folder.id } }]))
  await replacements.load()
  const shown = replacements.shown(await drive.list(folder.id)).map(({ name }) => name)
  t.same(shown, ['spare', 'file'], 'the old file has its name')
  for (const id of [moved.id, old.id]) t.throws(() => replacements.assertSettled(id), { code: 'busy' })
  await replacements.settle()
  t.same(
    (await drive.list(folder.id)).map(({ id, name }) => [id, name]),
    [[moved.id, 'file']],
  )
  replacements.assertSettled(moved.id)
  await replacements.close()
})
