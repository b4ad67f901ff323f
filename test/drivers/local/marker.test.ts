/** All nodes must see the same root folder: a marker in it shows that. */
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { startGateway, startNodes } from '../../gateway.js'
import { lacks } from '../../programs.js'
import { thisServer } from '../../database/engines.js'
import { memoryState } from '../lib/cloud/vendor.js'
import { openLocal } from '../env.js'

const name = '.tidegate-marker'
const refusal = {
  code: 'invalid',
  reason: /is not the one that the other nodes see: .* \.tidegate-marker with the text /,
}

/** Opens and closes a storage of several machines on the folder. Resolves to what it reports. */
async function starts(folder: string, { state } = memoryState()): Promise<readonly string[]> {
  const reported: string[] = []
  const report = (warnings: readonly string[]) => void reported.push(...warnings)
  const driver = await openLocal(folder, {}, { spansMachines: true, state, report })
  await driver.close?.()
  return reported
}

await t.test('a node with another folder does not start the storage, until that has the marker', async (t) => {
  const [shared, other] = [join(t.testdir(), 'shared'), join(t.testdir(), 'other')]
  for (const folder of [shared, other]) await mkdir(folder)
  const memory = memoryState()
  // Each node has the same option, and sees its own folder there.
  const open = (folder: string) => {
    const state: typeof memory.state = {
      ...memory.state,
      get: (key) => memory.state.get(key.replace(folder, 'option')),
      set: (key, value) => memory.state.set(key.replace(folder, 'option'), value),
    }
    return starts(folder, { ...memory, state })
  }
  t.same(await open(shared), [])
  t.same(await open(shared), [])
  await t.rejects(open(other), refusal)
  t.same(await readdir(other), [], 'nothing is created there')
  const marker = await readFile(join(shared, name), 'utf8')
  await writeFile(join(other, name), 'another')
  await t.rejects(open(other), refusal)
  await writeFile(join(other, name), `${marker}\n`)
  t.same(await open(other), [])
})

await t.test('storages and nodes that start at once agree on one marker', async (t) => {
  const folder = t.testdir()
  const states = [memoryState(), memoryState(), memoryState()]
  await Promise.all([...states, ...states].map((memory) => starts(folder, memory)))
  const marker = await readFile(join(folder, name), 'utf8')
  for (const { values } of states) t.same([...values.values()], [marker])
  await writeFile(join(folder, name), '')
  t.same(await starts(folder), [], 'the creation was interrupted')
  t.not(await readFile(join(folder, name), 'utf8'), '')
})

await t.test('a single machine has no marker, and a folder that cannot be written to is reported', async (t) => {
  const folder = t.testdir()
  await (await openLocal(folder)).close?.()
  t.notOk(existsSync(join(folder, name)))
  if (!existsSync('/sys/class')) return
  const memory = memoryState()
  t.match(await starts('/sys/class', memory), [/read-only/])
  t.equal(memory.values.size, 0)
})

const skip = lacks('postgres', 'initdb')

await t.test('a gateway that sees another folder refuses the storage with a sentence', { skip }, async (t) => {
  const store = await (await thisServer()).createDatabase()
  const nodes = await startNodes(t, store, 2)
  const statuses = () => nodes.map(({ gateway }) => gateway.mounts.rows()[0]?.status)
  t.same(statuses(), ['work', 'work'], 'a folder that both see')
  const [one, two] = nodes
  const row = one?.gateway.mounts.rows()[0]
  if (!one || !two || !row) throw new Error('no gateway')
  const authorization = `Basic ${Buffer.from(`admin:${one.adminPassword}`).toString('base64')}`
  const listed = await fetch(one.davUrl, { method: 'PROPFIND', headers: { authorization, depth: '1' } })
  t.notMatch(await listed.text(), /marker/)
  t.equal((await fetch(`${one.davUrl}${name}`, { headers: { authorization } })).status, 404)

  for (const { dataFolder } of nodes) await mkdir(join(dataFolder, 'files'), { recursive: true })
  const addition = JSON.stringify({ root_folder_path: 'files' })
  await one.gateway.supervisor.apply(await one.gateway.store.storages.update(row.id, { addition }))
  while (statuses()[1]?.includes('not the one') !== true) await wait(20)
  t.equal((await fetch(`${two.davUrl}x`, { headers: { authorization } })).status, 503)
  await two.stop()
  const three = await startGateway(t, { dataFolder: await mkdtemp(join(t.testdir(), 'three-')), store })
  t.match(three.gateway.mounts.rows()[0]?.status, /files/, 'the folder is missing')
})
