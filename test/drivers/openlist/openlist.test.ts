/** The drivers for another gateway of the API keep the contract on a second gateway of this project. */
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { alistFields, alistType, openlistFields, openlistType } from '../../../drivers/openlist/index.js'
import type { DirectUrl, UrlClient } from '../../../src/contract/capabilities.js'
import { asPath } from '../../../src/base/path.js'
import { EgressGuard } from '../../../src/net/egress.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import { conformance } from '../../driver-conformance/driver.js'
import { at, source, type WritableDriver } from '../../driver-conformance/subject.js'
import { startGateway, type RunOptions } from '../../gateway.js'
import { onlyWithVariants } from '../../programs.js'
import { testEnv } from '../env.js'

/** A gateway, and mounts of new folders of it. */
async function backend(t: Test, options: RunOptions = {}) {
  const running = await startGateway(t, options)
  const { url } = running
  const egress = new EgressGuard(() => '')
  const credentials = { url, username: 'admin', password: running.adminPassword }
  const whole = (await openlistType.open(
    checkOptions(openlistFields, credentials),
    testEnv({ egress }),
  )) as WritableDriver
  t.teardown(() => whole.close?.())
  const newFolder = async () => {
    const root_folder_path = `/${randomUUID()}`
    await whole.mkdir(asPath(root_folder_path))
    return {
      options: { ...credentials, root_folder_path },
      dispose: () => whole.removeTree?.(asPath(root_folder_path)),
    }
  }
  return { running, whole, newFolder, credentials }
}

async function fetchDirectUrl({ url, headers }: DirectUrl, { userAgent = '' }: UrlClient): Promise<string | undefined> {
  const response = await fetch(url, { headers: { 'user-agent': userAgent, ...headers } })
  return response.ok ? response.text() : undefined
}

for (const driver of ['Local', 'Memory']) {
  const skip = driver === 'Memory' && onlyWithVariants
  await t.test(`OpenList keeps the contract on a gateway over ${driver}`, { skip }, async (t) => {
    const { newFolder } = await backend(t, driver === 'Local' ? {} : { driver: { name: driver } })
    await conformance(t, {
      type: openlistType,
      many: 300,
      open: async () => {
        const { options, dispose } = await newFolder()
        return {
          driver: await openlistType.open(checkOptions(openlistFields, options), testEnv()),
          fetchDirectUrl,
          dispose: async () => dispose(),
        }
      },
    })
  })
}

await t.test('AList V3 keeps the contract on a gateway', async (t) => {
  const { newFolder } = await backend(t, { driver: { name: 'Memory' } })
  await conformance(t, {
    type: alistType,
    many: 300,
    open: async () => {
      const { options, dispose } = await newFolder()
      return {
        driver: await alistType.open(checkOptions(alistFields, options), testEnv()),
        fetchDirectUrl,
        dispose: async () => dispose(),
      }
    },
  })
})

await t.test('times and hashes reach the other gateway', async (t) => {
  const { whole } = await backend(t)
  const modified = new Date('2001-02-03T04:05:06.789Z')
  const entry = await whole.write(at('/file'), source('hello'), { modified })
  t.same(entry.modified, modified)
  const wrong = { ...source('hello'), hashes: { sha1: '0'.repeat(40) } }
  await t.rejects(whole.write(at('/other'), wrong), { code: 'invalid' }, 'it compares the hashes')
  await t.rejects(whole.stat(at('/other')), { code: 'not_found' })
})
