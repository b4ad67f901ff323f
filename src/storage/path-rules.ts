/**
 * The rules of every driver that follow from the paths of a call alone. They are checked here, so that no driver checks
 * them: the root folder stays, a move onto itself does nothing, and no folder is moved into itself.
 */
import type { Driver } from '../contract/driver.js'
import type { Traits } from '../contract/traits.js'
import { GatewayError } from '../base/errors.js'
import { foldCase, isWithin, root, type Path } from '../base/path.js'
import { driverProperties, overriding } from './overriding.js'

/** Returns the driver with its calls checked. */
export function withPathRules(driver: Driver, { caseSensitive }: Pick<Traits, 'caseSensitive'>): Driver {
  const assertMovable = (path: Path) => {
    if (path === root) throw new GatewayError('denied', { reason: 'the root folder cannot be removed or moved' })
  }
  const assertFile = (path: Path) => {
    if (path === root) throw new GatewayError('is_folder')
  }
  /** The call, unless the path is that of the root folder. */
  const ofFile = <T>(path: Path, call: () => Promise<T>): Promise<T> =>
    path === root ? Promise.reject(new GatewayError('is_folder')) : call()
  const isBelow = (folder: Path, path: Path) => {
    const [one, other] = caseSensitive ? [folder, path] : [foldCase(folder), foldCase(path)]
    return one !== other && isWithin(one, other)
  }
  return overriding(driver, driverProperties, (inner) => ({
    read: (path, range, options) => ofFile(path, () => inner.read(path, range, options)),
    open: (path, mode, options) => ofFile(path, () => inner.open(path, mode, options)),
    write: (path, source, options) => ofFile(path, () => inner.write(path, source, options)),
    upload: (path, plan, options) => ofFile(path, () => inner.upload(path, plan, options)),
    mkdir: async (path, options) => {
      if (path === root) throw new GatewayError('exists')
      return inner.mkdir(path, options)
    },
    remove: async (path, options) => {
      assertMovable(path)
      return inner.remove(path, options)
    },
    removeTree: async (path, options) => {
      assertMovable(path)
      return inner.removeTree(path, options)
    },
    move: async (from, to, options) => {
      assertMovable(from)
      assertFile(to)
      if (from === to) {
        await inner.stat(from, { ...options, ofSymlink: true })
        return
      }
      if (isBelow(from, to)) {
        const { kind } = await inner.stat(from, { ...options, ofSymlink: true })
        throw kind === 'folder'
          ? new GatewayError('invalid', { detail: 'into_itself' })
          : new GatewayError('not_folder')
      }
      return inner.move(from, to, options)
    },
    copy: (from, to, options) => ofFile(to, () => inner.copy(from, to, options)),
  }))
}
