/** What the console says of drivers, of the fields of storages, and of storages that cannot be used. */
import { ApiError } from '../api/client.ts'
import { messageOf } from '../components/error-text.ts'
import { textFor, textsOf } from '../texts/texts.ts'

const texts = textsOf('admin', 'drivers', 'clouds')

export interface FieldText {
  readonly label: string
  /** What the field is, and where its value is found. */
  readonly help: string
}

export type FieldTexts = Readonly<Record<string, FieldText>>

interface DriverText {
  /** What the driver connects, in one sentence. */
  readonly about: string
  /** The texts of its fields, in the order in which a form shows them. */
  readonly fields: FieldTexts
}

type DriverName = keyof typeof texts.drivers | keyof typeof texts.clouds

/** The pages of the documentation below `docs/`, without extension. */
export const driverPages: Readonly<Record<DriverName, string>> = {
  Local: 'drivers/local',
  FTP: 'drivers/ftp',
  SFTP: 'drivers/sftp',
  SMB: 'drivers/smb',
  WebDav: 'drivers/webdav',
  S3: 'drivers/s3',
  Rclone: 'drivers/rclone',
  OpenList: 'drivers/openlist',
  'AList V3': 'drivers/openlist',
  Alias: 'drivers/alias',
  Crypt: 'drivers/crypt',
  Memory: 'drivers',
  Virtual: 'drivers/virtual',
  '115 Cloud': 'drivers/115',
  '115 Share': 'drivers/115',
  '115 Open': 'drivers/115-open',
  AliyundriveOpen: 'drivers/aliyundrive',
  Quark: 'drivers/quark',
  UC: 'drivers/quark',
}

/** Undefined for a driver that a later version of the server has. */
export function driverText(name: string): DriverText | undefined {
  const all: Readonly<Record<string, DriverText>> = { ...texts.drivers, ...texts.clouds }
  return Object.hasOwn(all, name) ? all[name] : undefined
}

export function driverPage(name: string): string | undefined {
  return textFor(name, driverPages)
}

/** The fields that every storage has. */
export function storageFieldTexts(): FieldTexts {
  return texts.storageFields
}

/** Why a storage cannot be used: in the language of the user, then in the words of the backend. */
export function faultText(error: unknown): string {
  const { faults, checkedWith } = texts.storages
  const fault = error instanceof ApiError ? textFor(error.error ?? '', faults) : undefined
  return fault === undefined || !(error instanceof ApiError) ? messageOf(error) : checkedWith(fault, error.message)
}
