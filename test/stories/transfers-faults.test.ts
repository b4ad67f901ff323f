/** A tree is moved between two storages with faults at every call and every byte: no file is lost. */
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Driver } from '../../src/contract/driver.js'
import { isGatewayError } from '../../src/base/errors.js'
import { asPath } from '../../src/base/path.js'
import type { VirtualFs } from '../../src/tree/virtual-fs.js'
import { flaky, type Fault, type Planned } from '../drivers/flaky.js'
import { Journal } from '../transfer/journal.js'
import { newTree, sourceOf, text, type Test } from '../tree/tree-fixture.js'

const files: Readonly<Record<string, string>> = {
  '/tree/one': 'first',
  '/tree/folder/two': 'second',
  '/tree/folder/three': '',
  '/tree/folder/deep/four': 'fourth',
}
const methods: readonly (keyof Driver)[] = [
  'stat',
  'pages',
  'read',
  'write',
  'mkdir',
  'remove',
  'setAttributes',
  'move',
  'removeTree',
]
const from = asPath('/near/tree')
const to = asPath('/far/tree')

interface Stage {
  readonly fs: VirtualFs
  readonly plan: Record<'near' | 'far', Planned[]>
  readonly calls: (side: 'near' | 'far', method: keyof Driver) => number
}

/**
 * Resolves to a function that restarts both storages, with the tree in the first one and the old files in the second
 * one.
 */
async function stages(t: Test, old: Readonly<Record<string, string>>): Promise<() => Promise<Stage>> {
  const planned = () => ({ near: [], far: [] })
  const flakyOnes = ({ near, far }: Stage['plan']) => ({
    near: flaky(new MemoryDriver(0), near),
    far: flaky(new MemoryDriver(0), far),
  })
  let drivers = flakyOnes(planned())
  const { as, supervisor, store } = await newTree(t, {
    '/near': { driverOf: async () => drivers.near.driver },
    '/far': { driverOf: async () => drivers.far.driver },
  })
  const rows = await store.storages.all()
  return async () => {
    const plan: Stage['plan'] = planned()
    const current = (drivers = flakyOnes(plan))
    for (const row of rows) await supervisor.apply(row)
    const fs = as()
    const all = Object.entries(files).map(([path, content]): [string, string] => [`/near${path}`, content])
    for (const [path, content] of Object.entries(old)) all.push([`/far${path}`, content])
    for (const [path, content] of all) await fs.write(asPath(path), sourceOf(content), { parents: true })
    await fs.mkdir(asPath('/near/tree/empty'))
    return { fs, plan, calls: (side, method) => current[side].calls(method) }
  }
}

async function contentOf(fs: VirtualFs, path: string): Promise<string | undefined> {
  try {
    return await text(fs.read(asPath(path)))
  } catch (error) {
    if (isGatewayError(error, 'not_found', 'parent_missing')) return undefined
    throw error
  }
}

/** Names of all entries below a folder. */
async function leftovers(fs: VirtualFs, folder: string): Promise<readonly string[]> {
  const found: string[] = []
  for await (const page of fs.pages(asPath(folder))) {
    for (const { name, kind } of page) {
      found.push(name)
      if (kind === 'folder') found.push(...(await leftovers(fs, `${folder}/${name}`)))
    }
  }
  return found
}

/** Defects after a move that may have failed; empty if no file is lost or incomplete. */
async function losses(fs: VirtualFs, old: Readonly<Record<string, string>> = {}): Promise<string[]> {
  const wrong: string[] = []
  for (const [path, content] of Object.entries(files)) {
    const [near, far] = [await contentOf(fs, `/near${path}`), await contentOf(fs, `/far${path}`)]
    if (near !== content && far !== content) wrong.push(`${path} is lost`)
    if (near !== undefined && near !== content) wrong.push(`${path} is corrupt at the source`)
    if (far !== undefined && far !== content && far !== old[path]) wrong.push(`${path} is corrupt at the target`)
  }
  return wrong
}

async function isMoved(fs: VirtualFs): Promise<boolean> {
  const there = await Promise.all(
    Object.entries(files).map(async ([path, content]) => (await contentOf(fs, `/far${path}`)) === content),
  )
  const names = await leftovers(fs, '/near')
  return there.every(Boolean) && names.length === 0 && (await fs.stat(asPath('/far/tree/empty'))).kind === 'folder'
}

interface Attempt {
  readonly overwrite: boolean
  /** The files at the target before the move. */
  readonly old: Readonly<Record<string, string>>
}

/** Injects every fault into every call of both storages, each with a new tree. Resolves to the number of faults. */
async function everyFault(t: Test & { fail(text: string): unknown }, { overwrite, old }: Attempt): Promise<number> {
  const begin = await stages(t, old)
  const { fs, calls } = await begin()
  const before = new Map(methods.map((method) => [method, { near: calls('near', method), far: calls('far', method) }]))
  await fs.move(from, to, { overwrite })
  const after = new Map(methods.map((method) => [method, { near: calls('near', method), far: calls('far', method) }]))
  const extraneous = Object.keys(old).filter((path) => files[path] === undefined)
  const isDone = async (fs: VirtualFs) => {
    const left = await Promise.all(extraneous.map((path) => contentOf(fs, `/far${path}`)))
    return (await isMoved(fs)) && left.every((content) => content === undefined)
  }
  if (!(await isDone(fs))) t.fail('a move without a fault')
  let tried = 0
  for (const [side, method] of (['near', 'far'] as const).flatMap((side) =>
    methods.map((each) => [side, each] as const),
  )) {
    const faults: Fault[] = [{ kind: 'fail' }, { kind: 'fail after' }]
    if (method === 'read' || method === 'write') {
      for (let bytes = 0; bytes <= 6; bytes++) faults.push({ kind: 'cut', after: bytes })
    }
    for (let call = (before.get(method)?.[side] ?? 0) + 1; call <= (after.get(method)?.[side] ?? 0); call++) {
      for (const fault of faults) {
        const stage = await begin()
        stage.plan[side].push({ method, call, fault })
        const journal = new Journal()
        const what = `${side} ${method} ${call}: ${JSON.stringify(fault)}`
        const move = () =>
          stage.fs.move(from, to, { overwrite, journal }).then(
            () => undefined,
            (error: unknown) => String(error),
          )
        const failed = await move()
        stage.plan[side].length = 0
        const wrong = await losses(stage.fs, old)
        if (wrong.length > 0) t.fail(`${what}: ${wrong.join(', ')}`)
        if (failed === undefined && !(await isDone(stage.fs))) t.fail(`${what}: the move succeeded, but is incomplete`)
        if (failed !== undefined) {
          journal.resumes = true
          const again = await move()
          if (again !== undefined) t.fail(`${what}: ${failed}; the next run failed: ${again}`)
          if (!(await isDone(stage.fs))) t.fail(`${what}: ${failed}; the next run left something`)
        }
        tried += 1
      }
    }
  }
  return tried
}

const timeout = 600_000

void t.test('no fault at any call or byte loses a file, and the next run moves the rest', { timeout }, async (t) => {
  const tried = await everyFault(t, { overwrite: false, old: {} })
  t.ok(tried > 100, `${tried} faults`)
})

void t.test(
  'no fault loses a file while an old tree is replaced, and nothing of the old tree remains',
  { timeout },
  async (t) => {
    const old = { '/tree/one': 'older', '/tree/folder/other': 'extraneous', '/tree/gone/file': 'extraneous' }
    const tried = await everyFault(t, { overwrite: true, old })
    t.ok(tried > 100, `${tried} faults`)
  },
)
