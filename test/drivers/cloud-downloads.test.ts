/**
 * Downloads from cloud drives through a gateway: connections that the vendor cuts, and links that expire or are shared.
 */
import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { start115 } from '../doubles/115/index.js'
import { downloadHost } from '../doubles/115/downloads.js'
import { startOpen115 } from '../doubles/115-open.js'
import { startAliyundrive } from '../doubles/aliyundrive.js'
import { startQuark } from '../doubles/quark.js'
import type { Requests } from '../doubles/requests.js'
import { startGateway } from '../gateway.js'
import { mount } from '../servers/remotes.js'
import { shortenWaits } from '../short-waits.js'
import { connect } from '../stories/task-client.js'
import { credentialsOf } from './115/open-mount.js'
import { credentials } from './aliyundrive/mount.js'

shortenWaits(50)

interface Cloud {
  readonly driver: string
  readonly addition: object
  readonly requests: Requests
  /** Requests for content, and those for a link, as `Requests.inject` takes them. */
  readonly downloads: RegExp
  readonly links: RegExp
  put(name: string, content: Buffer): Promise<void>
  replace(name: string, content: string): Promise<void>
  /** No link that was handed out before leads to anything. */
  expireLinks(): void
  /** From now on, a link serves one request, or one at a time. */
  limitLinks?(): void
}

const clouds: Readonly<Record<string, (t: Test) => Promise<Cloud>>> = {
  '115 Cloud': async (t) => {
    const double = await start115(t)
    return {
      driver: '115 Cloud',
      addition: { cookie: double.account.signIn(), limit_rate: 0, root_folder_id: double.makeFolder('shown') },
      requests: double.requests,
      downloads: new RegExp(`^GET ${downloadHost}`),
      links: /downurl/,
      put: async (name, content) => {
        await double.putFile(`/shown/${name}`, content)
      },
      replace: (name, content) => double.elsewhere('/shown').replace(`/${name}`, content),
      expireLinks: () => double.downloads.expireLinks(),
    }
  },
  '115 Open': async (t) => {
    const double = await startOpen115(t)
    return {
      driver: '115 Open',
      addition: credentialsOf(double),
      requests: double.requests,
      downloads: /^GET [^/]*115cdn/,
      links: /downurl/,
      put: async (name, content) => void double.drive.create('0', name, await double.contents.add(content)),
      replace: (name, content) => double.elsewhere('0').replace(`/${name}`, content),
      expireLinks: () => double.links.expireAll(),
      limitLinks: () => (double.links.maxOpen = 1),
    }
  },
  Quark: async (t) => {
    const double = await startQuark(t)
    return {
      driver: 'Quark',
      addition: { cookie: double.session.cookie },
      requests: double.requests,
      downloads: /^GET dl-pc/,
      links: /file\/download/,
      put: async (name, content) => void double.drive.create('0', name, await double.contents.add(content)),
      replace: (name, content) => double.elsewhere.replace(`/${name}`, content),
      expireLinks: () => double.downloads.expireLinks(),
      limitLinks: () => (double.downloads.areSingleUse = true),
    }
  },
  AliyundriveOpen: async (t) => {
    const double = await startAliyundrive(t)
    const { drives, contents, requests, urls } = double
    const driveId = drives.ids.resource
    return {
      driver: 'AliyundriveOpen',
      addition: { ...credentials(double), root_folder_id: 'root' },
      requests,
      downloads: /^GET [^/]*aliyundrive\.net/,
      links: /getDownloadUrl/,
      put: async (name, content) => void drives.create(driveId, 'root', name, await contents.add(content)),
      replace: async (name, content) => drives.elsewhere(driveId, 'root').replace(`/${name}`, content),
      expireLinks: () => urls.expire(),
    }
  },
}

async function start(t: Test, cloud: Cloud) {
  const gateway = await startGateway(t, { driver: { name: 'Memory' } })
  const { driver, addition } = cloud
  await mount(gateway, gateway.adminPassword, [
    { mountPath: '/cloud', driver, addition },
    { mountPath: '/alias', driver: 'Alias', addition: { paths: '/cloud' } },
  ])
  return connect(gateway)
}

for (const [name, startCloud] of Object.entries(clouds)) {
  await t.test(`${name}: a download that the vendor cuts goes on`, async (t) => {
    const cloud = await startCloud(t)
    const { requests, downloads } = cloud
    const client = await start(t, cloud)
    const content = randomBytes(5_000_000)
    await cloud.put('file', content)
    for (const path of ['/cloud/file', '/alias/file']) {
      requests.inject(downloads, { cutAnswerAfter: 1_000_000 }, 3)
      t.ok(content.equals(await client.read(path)), path)
      requests.clearFaults()
    }

    // The link has expired meanwhile: once for each download, because the pieces of one share its links.
    for (let round = 0; round < 2; round++) {
      requests.inject(downloads, { cutAnswerAfter: 500_000, then: () => cloud.expireLinks() }, 1)
      t.ok(content.equals(await client.read('/cloud/file')), 'with a new link')
      requests.clearFaults()
    }

    const asked = requests.matching(downloads).length
    requests.inject(downloads, { cutAnswerAfter: 0 }, 1000)
    await t.rejects(client.read('/cloud/file'), 'without progress')
    const attempts = requests.matching(downloads).length - asked
    t.ok(attempts > 3 && attempts < 80, `${attempts} requests`)
    requests.clearFaults()

    requests.inject(downloads, { cutAnswerAfter: 400_000, then: () => void cloud.replace('file', 'other') }, 1)
    const mixed = await client.read('/cloud/file').catch(() => undefined)
    // What was requested before may be complete, but nothing is added of the other file.
    t.ok(mixed === undefined || content.equals(mixed), 'a file that was replaced meanwhile')
  })
}

for (const [name, startCloud] of Object.entries(clouds)) {
  await t.test(`${name}: ten readers of a file share a link`, async (t) => {
    const cloud = await startCloud(t)
    const { requests, links } = cloud
    const client = await start(t, cloud)
    const content = randomBytes(200_000)
    await cloud.put('file', content)
    const read = async (count: number) => {
      const before = requests.matching(links).length
      const all = await Promise.all(Array.from({ length: count }, () => client.read('/cloud/file')))
      t.ok(all.every((each) => content.equals(each)))
      return requests.matching(links).length - before
    }
    t.equal(await read(10), 1, 'at the same time')
    t.equal(await read(1), 0, 'later')
    cloud.expireLinks()
    t.ok((await read(10)) <= 2, 'a new one when it is refused')
    if (!cloud.limitLinks) return
    cloud.expireLinks()
    cloud.limitLinks()
    await read(10)
  })
}
