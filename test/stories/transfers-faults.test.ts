/** A tree is moved between two storages that fail, at every call and every byte: whatever happens, no file is lost. */
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { CopiedState, CopyJournal } from '../../src/copy-job.js'
import type { Driver } from '../../src/driver.js'
import { isGatewayError } from '../../src/errors.js'
import { asPath, nameOf, parentOf, type Path } from '../../src/path.js'
import type { VirtualFs } from '../../src/virtual-fs.js'
import { flaky, type Fault, type Planned } from '../drivers/flaky.js'
import { newTree, sourceOf, text, type Test } from '../src/tree-fixture.js'

const files: Readonly<Record<string, string>> = {
  '/tree/one': 'first',
  '/tree/folder/two': 'second',
  '/tree/folder/three': '',
  '/tree/folder/deep/four': 'fourth',
}
const methods: readonly (keyof Driver)[] = [
  'stat',
  'list',
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

/** What the rows of the store do, without a store. */
class Journal implements CopyJournal {
  readonly kept = new Map<Path, CopiedState>()

  constructor(public resumes = false) {}

  async copiedIn(folder: Path): Promise<ReadonlyMap<string, CopiedState>> {
    return new Map(
      [...this.kept].filter(([path]) => parentOf(path) === folder).map(([path, kept]) => [nameOf(path), kept]),
    )
  }

  async copied(path: Path): Promise<CopiedState | undefined> {
    return this.kept.get(path)
  }

  async keep(path: Path, state: CopiedState): Promise<void> {
    this.kept.set(path, state)
  }

  async settled(): Promise<void> {
    // There is nothing that could be lost.
  }
}

interface Stage {
  readonly fs: VirtualFs
  readonly plan: Record<'near' | 'far', Planned[]>
  readonly calls: (side: 'near' | 'far', method: keyof Driver) => number
}

async function staged(t: Test, fill = true): Promise<Stage> {
  const plan: Stage['plan'] = { near: [], far: [] }
  const drivers = { near: flaky(new MemoryDriver(0), plan.near), far: flaky(new MemoryDriver(0), plan.far) }
  const { as } = await newTree(t, {
    '/near': { driverOf: async () => drivers.near.driver },
    '/far': { driverOf: async () => drivers.far.driver },
  })
  const fs = as()
  if (fill) {
    for (const [path, content] of Object.entries(files)) {
      await fs.write(asPath(`/near${path}`), sourceOf(content), { parents: true })
    }
    await fs.mkdir(asPath('/near/tree/empty'))
  }
  return { fs, plan, calls: (side, method) => drivers[side].calls(method) }
}

async function contentOf(fs: VirtualFs, path: string): Promise<string | undefined> {
  try {
    return await text(fs.read(asPath(path)))
  } catch (error) {
    if (isGatewayError(error, 'not_found', 'parent_missing')) return undefined
    throw error
  }
}

/** Names of everything below, also of what is hidden from users. */
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

/** What is wrong after a move that may have failed; empty where no file is lost or half there. */
async function losses(fs: VirtualFs): Promise<string[]> {
  const wrong: string[] = []
  for (const [path, content] of Object.entries(files)) {
    const [near, far] = [await contentOf(fs, `/near${path}`), await contentOf(fs, `/far${path}`)]
    if (near !== content && far !== content) wrong.push(`${path} is lost`)
    if (near !== undefined && near !== content) wrong.push(`${path} is torn at the source`)
    if (far !== undefined && far !== content) wrong.push(`${path} is torn at the target`)
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

const options = { overwrite: false }

void t.test('a move that goes well makes these calls', async (t) => {
  const { fs, calls } = await staged(t)
  await fs.move(from, to, options)
  t.ok(await isMoved(fs))
  t.equal(calls('far', 'write'), 4)
})

void t.test(
  'no fault at any call or byte loses a file, and the next run moves the rest',
  { timeout: 600_000 },
  async (t) => {
    const { fs, calls } = await staged(t)
    const before = new Map(
      methods.map((method) => [method, { near: calls('near', method), far: calls('far', method) }]),
    )
    await fs.move(from, to, options)
    let tried = 0
    for (const side of ['near', 'far'] as const) {
      for (const method of methods) {
        const first = before.get(method)?.[side] ?? 0
        const faults: Fault[] = [{ kind: 'fail' }, { kind: 'fail after' }]
        if (method === 'read' || method === 'write') {
          for (let after = 0; after <= 6; after++) faults.push({ kind: 'cut', after })
        }
        for (let call = first + 1; call <= calls(side, method); call++) {
          for (const fault of faults) {
            const stage = await staged(t)
            stage.plan[side].push({ method, call, fault })
            const journal = new Journal()
            const what = `${side} ${method} ${call}: ${JSON.stringify(fault)}`
            const failed = await stage.fs.move(from, to, { ...options, journal }).then(
              () => false,
              () => true,
            )
            stage.plan[side].length = 0
            const wrong = await losses(stage.fs)
            if (wrong.length > 0) t.fail(`${what}: ${wrong.join(', ')}`)
            if (!failed && !(await isMoved(stage.fs))) t.fail(`${what}: it was said to be moved`)
            if (failed) {
              journal.resumes = true
              await stage.fs.move(from, to, { ...options, journal }).catch((error: unknown) => {
                t.fail(`${what}: the next run failed: ${String(error)}`)
              })
              if (!(await isMoved(stage.fs))) t.fail(`${what}: the next run left something`)
            }
            tried += 1
          }
        }
      }
    }
    t.ok(tried > 100, `${tried} faults`)
  },
)
