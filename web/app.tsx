/** The pages of the console, and the frame around them. */
import { QueryClientProvider } from '@tanstack/preact-query'
import { lazy, Suspense } from 'preact/compat'
import { Redirect, Route, Router, Switch, useLocation } from 'wouter-preact'
import { queryClient } from './api/queries.ts'
import { FilesPage } from './files/files-page.tsx'
import { Frame } from './frame.tsx'
import { Failure } from './parts/failure.tsx'
import { Notices } from './parts/notices.tsx'
import { Page } from './parts/page.tsx'
import { basePath, isOfTree } from './parts/places.ts'
import { isAdmin, isGuest, useMe, type Me } from './session/me.ts'
import { SignInPage } from './session/sign-in-page.tsx'
import { texts } from './texts.ts'

const TasksPage = lazy(() => import('./tasks/tasks-page.tsx'))
const ProfilePage = lazy(() => import('./profile/profile-page.tsx'))
const SearchPage = lazy(() => import('./search/search-page.tsx'))
const AdminPages = lazy(() => import('./admin/admin-pages.tsx'))

const signInAddress = '/@login'

export function App() {
  return (
    <QueryClientProvider client={queryClient}>
      <Router base={basePath}>
        <Session />
      </Router>
      <Notices />
    </QueryClientProvider>
  )
}

function Session() {
  const { data: me, error, refetch } = useMe()
  const [location, navigate] = useLocation()
  if (error) return <Failure error={error} onRetry={() => void refetch()} />
  if (me === undefined) return <p class="loading">{texts.loading}</p>
  if (me === null || (location === signInAddress && isGuest(me))) {
    return <SignInPage onGuest={me ? () => navigate('/') : undefined} />
  }
  return location === signInAddress ? <Redirect to="/" replace /> : <Pages me={me} />
}

function Pages({ me }: { readonly me: Me }) {
  const [location] = useLocation()
  return (
    <Frame me={me}>
      <Suspense fallback={<p class="loading">{texts.loading}</p>}>
        <Switch>
          <Route path="/@search">
            <SearchPage me={me} />
          </Route>
          {!isGuest(me) && (
            <Route path="/@tasks">
              <TasksPage me={me} />
            </Route>
          )}
          {!isGuest(me) && (
            <Route path="/@profile">
              <ProfilePage me={me} />
            </Route>
          )}
          {isAdmin(me) && (
            <Route path="/@manage/*?">
              <AdminPages />
            </Route>
          )}
          <Route>{isOfTree(location) ? <FilesPage me={me} /> : <NoSuchPage />}</Route>
        </Switch>
      </Suspense>
    </Frame>
  )
}

function NoSuchPage() {
  return (
    <Page title={texts.notFoundTitle}>
      <p>{texts.notFound}</p>
    </Page>
  )
}
