/** All driver types. Importing this module does not load an implementation. */
import type { AnyDriverType } from '../src/contract/driver-type.js'
import { cloud115Type, open115Type, share115Type } from './115/index.js'
import { aliasType } from './alias/index.js'
import { aliyundriveType } from './aliyundrive/index.js'
import { cryptType } from './crypt/index.js'
import { ftpType } from './ftp/index.js'
import { localType } from './local/index.js'
import { memoryType } from './memory/index.js'
import { alistType, openlistType } from './openlist/index.js'
import { quarkType, ucType } from './quark/index.js'
import { rcloneType } from './rclone/index.js'
import { s3Type } from './s3/index.js'
import { sftpType } from './sftp/index.js'
import { smbType } from './smb/index.js'
import { virtualType } from './virtual/index.js'
import { webdavType } from './webdav/index.js'

export const driverTypes: readonly AnyDriverType[] = [
  cloud115Type,
  open115Type,
  share115Type,
  aliasType,
  aliyundriveType,
  alistType,
  cryptType,
  ftpType,
  localType,
  memoryType,
  openlistType,
  quarkType,
  rcloneType,
  s3Type,
  sftpType,
  smbType,
  ucType,
  virtualType,
  webdavType,
]
