/** Drivers of storages that are hard to show: slow, failing, and with a folder of many entries. */
import { setTimeout as wait } from 'node:timers/promises'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import { memoryType } from '../../drivers/memory/index.js'
import type { Driver } from '../../src/contract/driver.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import { altered, type Over } from '../tree/tree-fixture.js'

/** Number of entries in the root of the storage `Many`: the files `file 000000` and so on. */
export const manyEntries = 100_000

/** Milliseconds that a storage `Slow` waits before each answer. */
const delay = 300

const inMemory = (): Driver => new MemoryDriver(0, true)

function typeOf(name: string, over: (driver: Driver) => Over): AnyDriverType {
  return {
    ...memoryType,
    name,
    open: async () => {
      const driver = inMemory()
      return altered(driver, over(driver))
    },
  }
}

const fails = () => new GatewayError('unavailable', { reason: 'the disk is on strike' })

const failing = typeOf('Failing', () => ({
  stat: async (path) => (path === '/' ? folderEntry : Promise.reject(fails())),
  pages: async function* () {
    yield* []
    throw fails()
  },
  read: () => Promise.reject(fails()),
}))

const slow = typeOf('Slow', (driver) => ({
  pages: async function* (path, options) {
    await wait(delay)
    yield* driver.pages(path, options)
  },
  read: async (...parameters) => {
    await wait(delay)
    return driver.read(...parameters)
  },
}))

const many = typeOf('Many', () => ({
  stat: async (path) => (path === '/' ? folderEntry : fileEntry(path.slice(1))),
  pages: async function* () {
    const pageSize = 1000
    for (let start = 0; start < manyEntries; start += pageSize) {
      const length = Math.min(pageSize, manyEntries - start)
      yield Array.from({ length }, (_, index) => fileEntry(`file ${String(start + index).padStart(6, '0')}`))
    }
  },
}))

const modified = new Date('2026-01-02T03:04:05Z')
const folderEntry: Entry = { name: '', kind: 'folder', size: 0, modified }
const fileEntry = (name: string): Entry => ({ name, kind: 'file', size: 1, modified })

export const failingStorages: readonly AnyDriverType[] = [failing, slow, many]
