/** Mounts of new folders of a double of Quark or UC. */
import { randomUUID } from 'node:crypto'
import { quarkFields, type QuarkOptions } from '../../../drivers/quark/index.js'
import { openQuark } from '../../../drivers/quark/open.js'
import { quark, uc } from '../../../drivers/quark/vendor.js'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import { at, type Elsewhere, type WritableDriver } from '../../driver-conformance/subject.js'
import type { QuarkDouble } from '../../doubles/quark.js'
import { testEnv } from '../env.js'

interface MountOptions extends Partial<QuarkOptions> {
  /** Milliseconds for which the driver takes listings not to show a change; default: those of the driver. */
  readonly listingLag?: number
}

/** Opens the driver as for an admin's storage, by default on the whole drive. */
export async function openOn(
  { vendor: { product }, session }: QuarkDouble,
  { listingLag, ...options }: MountOptions = {},
  env: Partial<DriverEnv> = {},
): Promise<WritableDriver> {
  const vendor = product === quark.product ? quark : uc
  const checked = checkOptions(quarkFields, { cookie: session.cookie, ...options })
  const driver = await openQuark({ ...vendor, ...(listingLag !== undefined && { listingLag }) }, checked, testEnv(env))
  return driver as WritableDriver
}

/** A new folder of the drive, with the changes of another program in it. */
export function newFolder({ drive, elsewhere, contents }: QuarkDouble) {
  const name = randomUUID()
  const { fid } = drive.create('0', name)
  const inFolder: Elsewhere = {
    create: (folder, file, content) => elsewhere.create(`/${name}${folder}`, file, content),
    replace: (path, content) => elsewhere.replace(`/${name}${path}`, content),
    replaceFolder: (path, files) => elsewhere.replaceFolder(`/${name}${path}`, files),
  }
  const dispose = async () => {
    drive.remove(fid)
    // A later mount uploads other contents, as far as the service knows. It always knows the empty one.
    contents.forget()
    await contents.add('')
  }
  return { fid, elsewhere: inFolder, dispose }
}

/** A file that another program has put into the root folder. */
export async function existing({ drive, contents }: QuarkDouble, name: string, content: string | Buffer) {
  return drive.create('0', name, await contents.add(content))
}

export const file = at('/file')
