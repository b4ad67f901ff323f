/** Storages below Alias and Crypt, as in a gateway: behind the table of mounts, with locks and stored attributes. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { asPath, childOf, nameOf, type Path } from '../../src/base/path.js'
import { SubtreeDriver } from '../../src/tree/subtree-driver.js'
import { newTree, type MountAsk, type Test, type Tree } from '../tree/tree-fixture.js'
import { openLocal, testEnv } from './env.js'

interface CompositeTree {
  readonly tree: Tree
  /** The environment of a driver on top of this tree. */
  readonly env: DriverEnv
  /** A new, empty folder of a storage. */
  readonly newFolder: (storage: Path) => Promise<Path>
}

export async function compositeTree(t: Test, mounted: Readonly<Record<string, MountAsk>>): Promise<CompositeTree> {
  const tree = await newTree(t, mounted)
  const { mounts } = tree.dependencies
  const env = testEnv({
    tree: (path) => new SubtreeDriver(tree.dependencies, path),
  })
  let folders = 0
  const newFolder = async (storage: Path) => {
    const path = childOf(storage, `folder-${folders++}`)
    const place = mounts.find(path)
    await place.storage.mkdir(asPath(`/${nameOf(path)}`))
    return path
  }
  return { tree, env, newFolder }
}

/** Mount options of a new folder on disk, which is removed when the test ends. */
export function onDisk(t: Test): { readonly folder: string; readonly ask: MountAsk } {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-below-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return { folder, ask: { driverOf: () => openLocal(folder) } }
}
