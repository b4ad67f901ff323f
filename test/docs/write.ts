/** Writes what is generated from the source, for `npm run docs`: pages of docs/, and config/schema.json. */
import { writeFile } from 'node:fs/promises'
import { protocols } from '../../protocols/index.js'
import { configFileSchema } from '../../src/installation/config.js'
import { settingsPage, settingsPagePath } from './settings-page.js'

await writeFile(settingsPagePath, await settingsPage())
await writeFile('config/schema.json', configFileSchema(protocols))
