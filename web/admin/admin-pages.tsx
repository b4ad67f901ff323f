/** The administration: one page for each subject. */
import type { ComponentType } from 'preact'
import { Redirect, Route, Switch } from 'wouter-preact'
import { AuditPage } from '../audit/audit-page.tsx'
import { SignInsPage } from '../audit/sign-ins-page.tsx'
import type { Translation } from '../texts/texts.ts'
import { WebhooksPage } from '../webhooks/webhooks-page.tsx'
import { AboutPage } from './about-page.tsx'
import { ConnectionsPage } from './connections-page.tsx'
import { DashboardPage } from './dashboard-page.tsx'
import { DownloadsPage } from './downloads-page.tsx'
import { ExplainPage } from './explain-page.tsx'
import { GroupsPage } from './groups-page.tsx'
import { IndexPage } from './index-page.tsx'
import { LocksPage } from './locks-page.tsx'
import { LogPage } from './log-page.tsx'
import { RulesPage } from './rules-page.tsx'
import { SettingsPage } from './settings-page.tsx'
import { StartPage } from './start-page.tsx'
import { StoragesPage } from './storages-page.tsx'
import { UsersPage } from './users-page.tsx'
const pages: Readonly<Record<keyof Translation<'common'>['pages'], ComponentType>> = {
  storages: StoragesPage,
  users: UsersPage,
  groups: GroupsPage,
  rules: RulesPage,
  settings: SettingsPage,
  dashboard: DashboardPage,
  audit: AuditPage,
  'sign-ins': SignInsPage,
  webhooks: WebhooksPage,
  connections: ConnectionsPage,
  downloads: DownloadsPage,
  locks: LocksPage,
  index: IndexPage,
  log: LogPage,
  start: StartPage,
  explain: ExplainPage,
  about: AboutPage,
}

export default function AdminPages() {
  return (
    <Switch>
      {Object.entries(pages).map(([name, Subject]) => (
        <Route key={name} path={`/@manage/${name}`}>
          <Subject />
        </Route>
      ))}
      <Route>
        <Redirect to="/@manage/dashboard" replace />
      </Route>
    </Switch>
  )
}
