/** What a principal permits by itself, and how another one is made of it. */
import t from 'tap'
import { http } from '../../protocols/http/index.js'
import { sftp } from '../../protocols/sftp/index.js'
import { webdav } from '../../protocols/webdav/index.js'
import { permissionBits, type Permission } from '../../src/accounts/principal.js'
import { asPath } from '../../src/base/path.js'
import { principal } from './principals.js'

const allBits = Object.keys(permissionBits) as Permission[]

void t.test('withWholeTree() gives an admin the whole tree and throws denied for every other role', async (t) => {
  const { signal } = new AbortController()
  const admin = principal({ role: 'admin', base: '/a', may: ['copy'], userId: 7, protocol: sftp, signal })
  const whole = admin.withWholeTree()
  t.match(whole, { role: 'admin', base: '/', userId: 7, username: 'ada', protocol: sftp, readOnly: false })
  t.equal(whole.signal, signal, 'it is revoked with the admin')
  t.same(
    allBits.filter((bit) => whole.hasPermission(bit)),
    ['copy'],
  )
  t.equal(admin.base, '/a', 'the admin itself is unchanged')
  for (const role of ['general', 'guest'] as const) {
    t.throws(() => principal({ role }).withWholeTree(), { code: 'denied', detail: 'admins_only' })
  }
})

void t.test('withDownloadPermissions() adds write, for users with the permission for downloads only', async (t) => {
  const user = principal({ may: ['offlineDownload'], base: '/a' }).withDownloadPermissions()
  t.same(
    allBits.filter((bit) => user.hasPermission(bit)),
    ['offlineDownload', 'write'],
  )
  t.equal(user.base, '/a')
  const others = principal({ role: 'admin', may: allBits.filter((bit) => bit !== 'offlineDownload') })
  t.throws(() => others.withDownloadPermissions(), { code: 'denied' })
})

void t.test('respelled() changes the spelling of the base and of a signed path, and nothing else', async (t) => {
  const [path, spelled] = [asPath('/team/a/x'), asPath('/Team/A/X')]
  const user = principal({ base: '/team/a' })
  t.equal(user.respelled(path, spelled).base, '/Team/A')
  t.equal(user.respelled(path, path), user)
  t.equal(user.respelled(path, asPath('/team/b/x')).base, '/team/a', 'another folder is no spelling')
  t.equal(user.respelled(path, asPath('/team')).base, '/team/a', 'a folder above is no spelling')
  const signed = principal({ onlyPath: path })
  t.equal(signed.respelled(path, spelled).onlyPath, spelled)
  t.equal(signed.respelled(asPath('/b'), asPath('/B')).onlyPath, path)
})

void t.test('a protocol with permissions of its own may be used with the one for reading', async (t) => {
  t.equal(principal({ protocol: http, may: [] }).mayUseProtocol, true)
  t.equal(principal({ protocol: sftp, may: ['sftpRead'] }).mayUseProtocol, true)
  t.equal(principal({ protocol: sftp, may: allBits.filter((bit) => bit !== 'sftpRead') }).mayUseProtocol, false)
  t.equal(principal({ protocol: webdav, may: ['sftpRead', 'webdavManage'] }).mayUseProtocol, false)
})
