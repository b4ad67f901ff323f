/** One table of stories, run over three protocols: all of them permit and reject the same. */
import t from 'tap'
import { permissionBits, type Permission } from '../../src/accounts/principal.js'
import { asPath, root } from '../../src/base/path.js'
import { startGateway } from '../gateway.js'
import { ruleRow } from '../database/store-rows.js'
import { connectAll, type Answer, type ProtocolClient } from './protocols.js'

const protocolBits: readonly Permission[] = ['webdavRead', 'webdavManage', 'sftpRead', 'sftpManage']
const every: readonly Permission[] = ['write', 'rename', 'move', 'copy', 'remove']

interface Story {
  readonly title: string
  readonly holds: readonly Permission[]
  readonly act: (protocol: ProtocolClient) => Promise<unknown>
  readonly expect: Answer | readonly string[] | Readonly<Partial<Record<ProtocolClient['protocol'], Answer>>>
}

const without = (permission: Permission): readonly Permission[] => every.filter((each) => each !== permission)

/** How each protocol answers about what a rule hides. */
const hiddenAnswer = { http: 'refused', webdav: 'missing', sftp: 'missing' } as const

const stories: readonly Story[] = [
  {
    title: 'a user without the write bit cannot upload',
    holds: without('write'),
    act: (d) => d.put('/open/new', Buffer.from('x')),
    expect: 'refused',
  },
  {
    title: 'a user without the write bit cannot overwrite',
    holds: without('write'),
    act: (d) => d.put('/open/file', Buffer.from('x')),
    expect: 'refused',
  },
  {
    title: 'a user without the write bit cannot create a folder',
    holds: without('write'),
    act: (d) => d.makeFolder('/open/folder'),
    expect: 'refused',
  },
  {
    title: 'a user without the rename bit cannot rename',
    holds: without('rename'),
    act: (d) => d.rename('/open/file', '/open/other'),
    expect: 'refused',
  },
  {
    title: 'a user without the move bit cannot move to another folder',
    holds: without('move'),
    act: (d) => d.rename('/open/file', '/open/sub/file'),
    expect: 'refused',
  },
  {
    title: 'a user without the delete bit cannot remove',
    holds: without('remove'),
    act: (d) => d.remove('/open/file'),
    expect: 'refused',
  },
  {
    title: 'a folder whose rule has write accepts uploads',
    holds: [],
    act: (d) => d.put(`/drop/${d.protocol}`, Buffer.from('x')),
    expect: 'done',
  },
  {
    title: 'a folder whose rule has write does not permit removals',
    holds: [],
    act: (d) => d.remove('/drop/kept'),
    expect: 'refused',
  },
  { title: 'a hidden file is not listed', holds: every, act: (d) => d.names('/ruled'), expect: ['seen', 'sub'] },
  {
    title: 'a hidden file cannot be read',
    holds: every,
    act: (d) => d.get('/ruled/secret.txt'),
    expect: hiddenAnswer,
  },
  {
    title: 'a file below a hidden folder cannot be read',
    holds: every,
    act: (d) => d.get('/ruled/secret folder/inside'),
    expect: hiddenAnswer,
  },
  {
    title: 'a hidden file cannot be overwritten',
    holds: every,
    act: (d) => d.put('/ruled/secret.txt', Buffer.from('x')),
    expect: hiddenAnswer,
  },
  {
    title: 'a hidden name cannot be created',
    holds: every,
    act: (d) => d.makeFolder('/ruled/secret new'),
    expect: hiddenAnswer,
  },
  {
    title: 'a hidden file cannot be removed',
    holds: every,
    act: (d) => d.remove('/ruled/secret.txt'),
    expect: hiddenAnswer,
  },
  {
    title: 'a user who sees hidden entries can read them',
    holds: ['seeHidden'],
    act: (d) => d.get('/ruled/secret.txt'),
    expect: 'done',
  },
  {
    title: 'a folder with a password cannot be listed',
    holds: every,
    act: (d) => d.names('/locked'),
    expect: 'refused',
  },
  {
    title: 'a file in a folder with a password cannot be read',
    holds: every,
    act: (d) => d.get('/locked/file'),
    expect: 'refused',
  },
  {
    title: 'a folder with a password cannot be written to',
    holds: every,
    act: (d) => d.put('/locked/new', Buffer.from('x')),
    expect: 'refused',
  },
  ...['/private', '/staff'].flatMap((folder): Story[] => {
    const reason = folder === '/private' ? 'a password' : 'other readers'
    const refused = folder === '/private' ? 'refused' : hiddenAnswer
    return [
      {
        title: `a folder that requires ${reason} without its subfolders cannot be listed`,
        ...{ holds: every, act: (d) => d.names(folder), expect: refused },
      },
      {
        title: `a file in a folder that requires ${reason} without its subfolders cannot be read`,
        ...{ holds: every, act: (d) => d.get(`${folder}/file`), expect: refused },
      },
      {
        title: `a missing name in a folder that requires ${reason} without its subfolders is answered as a file`,
        ...{ holds: every, act: (d) => d.get(`${folder}/missing`), expect: refused },
      },
      {
        title: `a subfolder of a folder that requires ${reason} without its subfolders can be listed`,
        ...{ holds: every, act: (d) => d.names(`${folder}/sub`), expect: ['inside'] },
      },
      {
        title: `a file in a subfolder of a folder that requires ${reason} without its subfolders can be read`,
        ...{ holds: every, act: (d) => d.get(`${folder}/sub/inside`), expect: 'done' },
      },
    ]
  }),
  {
    title: 'a user who needs no folder passwords can list it',
    holds: ['skipPasswords'],
    act: (d) => d.names('/locked'),
    expect: ['file'],
  },
]

void t.test('each story has the same result by all three protocols', async (t) => {
  const running = await startGateway(t)
  const { gateway } = running
  const [admin] = await connectAll(running, { username: 'admin', password: running.adminPassword })
  if (!admin) throw new Error('no protocol')
  for (const folder of [
    ...['/open', '/open/sub', '/drop', '/ruled', '/ruled/sub', '/ruled/secret folder', '/locked'],
    ...['/private', '/private/sub', '/staff', '/staff/sub'],
  ]) {
    t.equal(await admin.makeFolder(folder), 'done')
  }
  for (const file of [
    '/open/file',
    '/drop/kept',
    '/ruled/seen',
    '/ruled/secret.txt',
    '/ruled/secret folder/inside',
    '/locked/file',
    '/private/file',
    '/private/sub/inside',
    '/staff/file',
    '/staff/sub/inside',
  ]) {
    t.equal(await admin.put(file, Buffer.from(file)), 'done')
  }
  await gateway.rules.create(ruleRow({ path: asPath('/drop'), write: true }))
  await gateway.rules.create(ruleRow({ path: asPath('/ruled'), hide: '^secret', hideSub: true }))
  await gateway.rules.create(ruleRow({ path: asPath('/locked'), password: 'open sesame', passwordSub: true }))
  await gateway.rules.create(ruleRow({ path: asPath('/private'), password: 'open sesame' }))
  await gateway.rules.create(ruleRow({ path: asPath('/staff'), readUsers: [1] }))

  for (const [number, story] of stories.entries()) {
    await t.test(story.title, async (t) => {
      const username = `user${number}`
      const permission = [...protocolBits, ...story.holds].reduce((sum, each) => sum | permissionBits[each], 0)
      const user = {
        username,
        password: 'a good password',
        basePath: root,
        role: 'general',
        permission,
        disabled: false,
        ssoId: '',
      } as const
      await gateway.accounts.users.create(user)
      for (const protocol of await connectAll(running, user)) {
        const answer = await story.act(protocol)
        const expected =
          typeof story.expect === 'object' && protocol.protocol in story.expect
            ? story.expect[protocol.protocol as keyof typeof story.expect]
            : story.expect
        t.same(Buffer.isBuffer(answer) ? 'done' : answer, expected, protocol.protocol)
        await protocol.close()
      }
    })
  }
})
