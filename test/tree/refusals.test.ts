/** What is refused of a path whoever asks: each row states the code, the detail and the reason, or undefined. */
import t from 'tap'
import { asPath as p } from '../../src/base/path.js'
import {
  outsideBase,
  relativeTarget,
  reservedName,
  symlinkTarget,
  systemFile,
} from '../../src/tree/impossible-paths.js'
import { refusalBelow, refusalOf } from '../../src/tree/policy/one-path.js'
import { fixedFolderRefusal, replacementRefusal } from '../../src/tree/policy/whole-folders.js'

const denied = (fields: object = {}) => ({ code: 'denied', ...fields })
const notThere = { code: 'not_found' }
const system = denied({ detail: 'system_file' })
const dots = denied({ reason: 'the target of a symlink may have .. at its start only' })
const elsewhere = denied({ reason: 'the target of a symlink must be in the same storage' })
const inside = { code: 'invalid', reason: 'a folder cannot be replaced by what is in it' }
const mountPoint = denied({ reason: 'a mount point cannot be replaced' })
const never = () => false

const rows = [
  ['a name of the gateway', reservedName(p('/a/.tidegate-1/b')), notThere],
  ['a name of the gateway in another case', reservedName(p('/.TideGate-1')), notThere],
  ['a name with the same word in it', reservedName(p('/a.tidegate-1')), undefined],
  ['a file of macOS', systemFile(p('/a/.DS_Store')), system],
  ['a file of macOS beside another', systemFile(p('/a/._b')), system],
  ['a file in a folder of that name', systemFile(p('/.DS_Store/a')), undefined],
  ['a file of Windows in another case', systemFile(p('/THUMBS.DB')), undefined],
  ['a mount point that is moved', fixedFolderRefusal(true, 'mount_moved'), denied({ detail: 'mount_moved' })],
  ['a mount point that is removed', fixedFolderRefusal(true, 'mount_removed'), denied({ detail: 'mount_removed' })],
  ['another folder', fixedFolderRefusal(false, 'mount_moved'), undefined],
  [
    'a folder into itself',
    replacementRefusal(p('/a'), p('/a/b'), true, false),
    { code: 'invalid', detail: 'into_itself' },
  ],
  ['a file to a path below it', replacementRefusal(p('/a'), p('/a/b'), false, false), undefined],
  ['a file over its folder', replacementRefusal(p('/a/b'), p('/a'), false, false), inside],
  ['a mount point above the source', replacementRefusal(p('/a/b'), p('/a'), false, true), inside],
  ['a mount point', replacementRefusal(p('/b'), p('/a'), false, true), mountPoint],
  ['a sibling', replacementRefusal(p('/a'), p('/ab'), true, false), undefined],
  ['a path in the base', outsideBase(p('/a'), p('/a/b')), undefined],
  ['a path beside the base', outsideBase(p('/a'), p('/ab')), { code: 'denied' }],
  ['a symlink to the folder above', relativeTarget('../a'), undefined],
  ['a symlink to two folders above', relativeTarget('.././..'), undefined],
  ['a symlink that leads back', relativeTarget('a/../b'), dots],
  ['a symlink that leads back later', relativeTarget('../a//..'), dots],
  ['a symlink in its storage', symlinkTarget(p('/disk'), p('/disk/a')), undefined],
  ['a symlink to its storage', symlinkTarget(p('/disk'), p('/disk')), undefined],
  ['a symlink to another storage', symlinkTarget(p('/disk'), p('/disks')), elsewhere],
  ['what is allowed', refusalOf('allow', 'refresh', never), undefined],
  ['a refresh', refusalOf('denied', 'refresh', never), denied({ detail: 'refresh_denied' })],
  ['a change', refusalOf('denied', 'write', never), denied({ detail: undefined })],
  ['a hidden name', refusalOf('hidden', 'mkdir', never), { code: 'hidden', detail: undefined }],
  ['a name in a hidden folder', refusalOf('hidden', 'mkdir', () => true), { code: 'hidden', detail: 'parent_hidden' }],
  ['reading in a hidden folder', refusalOf('hidden', 'read', () => true), { code: 'hidden', detail: undefined }],
  ['what is allowed below', refusalBelow('allow'), undefined],
  ['a folder below', refusalBelow('denied'), denied({ reason: 'permission denied below this folder' })],
] as const

void t.test('paths are refused by what they are', async (t) => {
  for (const [name, refusal, expected] of rows) t.same(refusal, expected, name)
})
