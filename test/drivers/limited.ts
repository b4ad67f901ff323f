/**
 * A storage in memory without features that many backends lack, for tests of the core that makes up for them. Its files
 * survive the mount, as with a real backend.
 */
import { memoryType } from '../../drivers/memory/index.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverType } from '../../src/contract/driver-type.js'
import type { Entry } from '../../src/contract/entry.js'
import type { Traits } from '../../src/contract/traits.js'
import { GatewayError } from '../../src/base/errors.js'
import { testEnv } from './env.js'
import { ObjectStoreDriver } from './object-store.js'

interface Limits {
  /** Methods that it does not have. */
  readonly without?: readonly (keyof Driver)[]
  /** Traits that also change its behavior: without ranges they are ignored, without times those of writing remain. */
  readonly traits?: Partial<Traits>
  /** Entries have no revision. */
  readonly unversioned?: boolean
  /** Entries have no time. */
  readonly timeless?: boolean
  /** Entries per page. */
  readonly page?: number
}

/** Storages that each lack something else. */
const limits: Readonly<Record<string, Limits>> = {
  Plain: {
    without: ['move', 'copy', 'removeTree', 'open', 'setAttributes', 'folderRevision', 'usage'],
    unversioned: true,
  },
  Timeless: { traits: { timeStep: Number.POSITIVE_INFINITY }, unversioned: true, timeless: true },
  Objects: {
    without: ['open', 'setAttributes', 'removeTree', 'folderRevision'],
    traits: { emptyFolders: false, timeStep: Number.POSITIVE_INFINITY, writeNeeds: 'size' },
  },
  Slow: {
    without: ['move', 'open'],
    traits: { parallel: 1, ranges: false, writeNeeds: 'reread', timeStep: 1000 },
    page: 2,
  },
}

/** A new storage of each kind. Opened again, it still has its files. */
export function limitedTypes(): readonly DriverType<typeof noFields>[] {
  return Object.entries(limits).map(([name, each]) => limitedType(name, each))
}

const noFields = {} as const

function limitedType(name: string, limits: Limits): DriverType<typeof noFields> {
  const memory =
    limits.traits?.emptyFolders === false
      ? new ObjectStoreDriver()
      : memoryType.open({ size_limit: 0, case_sensitive: true }, testEnv())
  return {
    name,
    fields: noFields,
    ...(limits.traits && { traits: limits.traits }),
    open: async () => limited(await memory, limits),
  }
}

type WritableDriver = Driver & Required<Pick<Driver, 'write' | 'mkdir' | 'remove'>>

function limited(memory: Driver, limits: Limits): Driver {
  const inner = memory as WritableDriver
  const { traits = {}, page = 1000 } = limits
  const told = (entry: Entry): Entry => {
    const { revision, ...rest } = entry
    const dated = limits.timeless === true ? { ...rest, modified: new Date(0) } : rest
    return limits.unversioned === true || revision === undefined ? dated : { ...dated, revision }
  }
  const keepsTimes = traits.timeStep !== Number.POSITIVE_INFINITY
  const write: WritableDriver['write'] = async (path, source, options) => {
    const { writeNeeds } = traits
    const suffices = writeNeeds === 'size' ? source.size !== undefined : writeNeeds !== 'reread' || source.rereadable
    if (!suffices) throw new GatewayError('internal', { reason: `a write here needs ${writeNeeds}` })
    const { modified, mode, ...rest } = options ?? {}
    return told(await inner.write(path, source, keepsTimes ? { modified, mode, ...rest } : rest))
  }
  const over: Partial<Driver> = {
    stat: async (path, options) => told(await inner.stat(path, options)),
    async *pages(path, options) {
      for await (const entries of inner.pages(path, options)) {
        for (let at = 0; at < entries.length; at += page) {
          await new Promise((resolve) => setImmediate(resolve))
          yield entries.slice(at, at + page).map(told)
        }
      }
    },
    read: (path, range, options) => inner.read(path, traits.ranges === false ? undefined : range, options),
    write,
    close: async () => undefined,
  }
  return new Proxy(memory, {
    get(target, name: keyof Driver) {
      if (limits.without?.includes(name) === true) return undefined
      if (name in over) return over[name]
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value as () => unknown).bind(target) : value
    },
  })
}
