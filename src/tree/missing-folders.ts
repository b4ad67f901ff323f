/** Makes the folders that a path requires. */
import { GatewayError } from '../contract/errors.js'
import { checkName, findDeepest, nameOf, parentOf, root, type Path } from '../contract/path.js'
import type { MountedTree } from '../storage/mounted-tree.js'
import type { Storage } from '../storage/storage.js'
import type { Access } from './access.js'
import type { Operations } from './operation.js'
import type { ChangeOptions } from './operation-options.js'

/**
 * Makes `folder`, a path of the whole tree, and the missing folders above it. Each is authorized and locked like any
 * other change. Resolves to the number of folders that did not exist. Rejects with `not_folder` if a file is in the way.
 * `preferred`: the storage to use if it is one of several at the same mount point.
 */
export async function makeMissingFolders(
  tree: MountedTree,
  operations: Operations,
  folder: Path,
  { preferred, ...options }: ChangeOptions & { readonly preferred?: Storage | undefined },
  authorize: (folder: Path) => void = () => undefined,
): Promise<number> {
  const { signal } = options
  const nearest = await findDeepest(folder, (path) => tree.entryOrUndefined(path, { signal, preferred }))
  if (nearest && nearest.found.kind !== 'folder') throw new GatewayError('not_folder')
  const missing: Path[] = []
  for (let path = folder; path !== (nearest?.at ?? root); path = parentOf(path)) missing.unshift(path)
  for (const path of missing) {
    await operations.change(
      {
        options,
        preferred: () => preferred,
        resolve: async () => {
          authorize(path)
          return [{ at: path, look: undefined }] as const
        },
        require: ({ entry }) => {
          if (!entry) checkName(nameOf(path))
        },
        touches: ({ entry }) => (entry ? [] : [{ path, membership: true }]),
      },
      async (made) => {
        // Another request may have made it meanwhile.
        if (!made.entry) await made.storage.mkdir(made.inner, { signal: made.signal })
      },
    )
  }
  return missing.length
}

/**
 * Makes the missing folders above `at`, if possible on the storage `preferred`. The principal needs the right to make
 * each of them.
 */
export async function makeMissingParents(
  access: Access,
  tree: MountedTree,
  operations: Operations,
  at: Path,
  { signal, password, lockTokens, preferred }: ChangeOptions & { readonly preferred: Storage | undefined },
): Promise<void> {
  const options = { signal, password, lockTokens, preferred }
  const authorize = (folder: Path) => access.authorize('mkdir', folder, options)
  await makeMissingFolders(tree, operations, parentOf(at), options, authorize)
}
