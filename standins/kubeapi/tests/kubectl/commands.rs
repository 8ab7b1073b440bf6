//! The commands, in order: each goes on from what the ones before it have left.

use super::run::Case;

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.test.causeway.dev
spec:
  group: test.causeway.dev
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Color, type: string, jsonPath: .spec.color, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        description: A widget is a thing of some size.
        type: object
        required: [spec]
        properties:
          spec:
            description: What is wanted.
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1, description: How large it is.}
              color: {type: string, enum: [red, green], description: What it looks like.}
          status:
            description: What is seen.
            type: object
            properties:
              conditions:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [type]
                items:
                  type: object
                  required: [type, status]
                  properties:
                    type: {type: string}
                    status: {type: string}
                    reason: {type: string}
"#;

const EVENTS: &str = r"
apiVersion: v1
kind: Node
metadata: {name: node1}
---
apiVersion: v1
kind: Event
metadata: {name: node1.old, namespace: default}
involvedObject: {apiVersion: v1, kind: Node, name: node1, uid: node1}
reason: Stuck
message: It does not move
type: Warning
count: 3
source: {component: causeway}
firstTimestamp: 2026-01-02T03:04:05Z
lastTimestamp: 2026-01-02T03:05:05Z
---
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: node1.new, namespace: default}
regarding: {apiVersion: v1, kind: Node, name: node1, uid: node1}
reason: Ready
note: All is well
type: Normal
action: Check
reportingController: causeway.dev/controller
reportingInstance: one
eventTime: 2026-01-03T03:04:05.000000Z
";

const ONE: &str = r"
apiVersion: test.causeway.dev/v1
kind: Widget
metadata: {name: one, namespace: tenant-a}
spec: {size: 3, color: red}
";

const ONE_LARGER: &str = r"
apiVersion: test.causeway.dev/v1
kind: Widget
metadata: {name: one, namespace: tenant-a}
spec: {size: 4}
";

const TWO: &str = r"
apiVersion: test.causeway.dev/v1
kind: Widget
metadata: {name: two, namespace: tenant-a}
spec: {size: 1}
";

const MISSPELT: &str = r"
apiVersion: test.causeway.dev/v1
kind: Widget
metadata: {name: three, namespace: tenant-a}
spec: {size: 1, colour: red}
";

const ACCESS: &str = r"
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: tenant-a}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: widget-view}
rules:
- {apiGroups: [test.causeway.dev], resources: [widgets], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: robot, namespace: tenant-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: widget-view}
subjects:
- {kind: ServiceAccount, name: robot, namespace: tenant-a}
";

const EVENT: &str = r#"
apiVersion: v1
kind: Event
metadata: {name: one.1, namespace: tenant-a}
involvedObject: {apiVersion: test.causeway.dev/v1, kind: Widget, name: one, namespace: tenant-a}
reason: Grown
message: It has grown.
type: Normal
count: 1
firstTimestamp: "2026-01-02T03:04:05Z"
lastTimestamp: "2026-01-02T03:04:05Z"
source: {component: test}
"#;

const fn ok(command: &'static str, prints: &'static str) -> Case {
    Case {
        command,
        input: "",
        succeeds: true,
        prints,
    }
}

const fn given(command: &'static str, input: &'static str, prints: &'static str) -> Case {
    Case {
        command,
        input,
        succeeds: true,
        prints,
    }
}

const fn refused(command: &'static str, prints: &'static str) -> Case {
    Case {
        command,
        input: "",
        succeeds: false,
        prints,
    }
}

pub fn all() -> Vec<&'static Case> {
    let parts = [BEGINNING, CHANGING, LOOKING, HAPPENING, WHO_MAY, ENDING];
    parts.into_iter().flatten().collect()
}

const BEGINNING: &[Case] = &[
    ok(
        "version",
        "Client Version: v1.*\nKustomize Version: *\nServer Version: v1.34.4*\n...",
    ),
    ok("create namespace tenant-a", "namespace/tenant-a created"),
    refused(
        "create namespace tenant-a",
        "Error from server (AlreadyExists): namespaces \"tenant-a\" already exists",
    ),
    ok(
        "get namespaces",
        "NAME STATUS AGE*\ndefault Active *\nkube-node-lease Active *\nkube-public Active *\nkube-system Active *\ntenant-a Active *",
    ),
    given(
        "apply --server-side -f -",
        DEFINITION,
        "customresourcedefinition.apiextensions.k8s.io/widgets.test.causeway.dev serverside-applied",
    ),
    ok(
        "wait --for=condition=Established crd/widgets.test.causeway.dev --timeout=20s",
        "customresourcedefinition.apiextensions.k8s.io/widgets.test.causeway.dev condition met",
    ),
    ok(
        "api-resources --api-group=test.causeway.dev",
        "NAME SHORTNAMES APIVERSION NAMESPACED KIND*\nwidgets wd test.causeway.dev/v1 true Widget*",
    ),
    ok(
        "api-versions",
        "...\nrbac.authorization.k8s.io/v1\n...\ntest.causeway.dev/v1\nv1",
    ),
    ok(
        "get widgets -n tenant-a",
        "No resources found in tenant-a namespace.",
    ),
];

const CHANGING: &[Case] = &[
    given("apply --server-side -f -", ONE, "widget.test.causeway.dev/one serverside-applied"),
    given(
        "apply --server-side --field-manager=other -f -",
        ONE_LARGER,
        "",
    )
    .fails("error: Apply failed with 1 conflict: conflict with \"kubectl\": .spec.size\n..."),
    given("apply --server-side --force-conflicts -f -", ONE_LARGER, "widget.test.causeway.dev/one serverside-applied"),
    given("create -f -", TWO, "widget.test.causeway.dev/two created"),
    given("apply -f -", ONE, "...\nwidget.test.causeway.dev/one configured\n..."),
    given("apply -f -", ONE, "widget.test.causeway.dev/one unchanged"),
    given("apply -f -", ONE_LARGER, "widget.test.causeway.dev/one configured"),
    given("replace -f -", ONE, "widget.test.causeway.dev/one replaced"),
    given("create -f -", MISSPELT, "")
        .fails("Error from server (BadRequest): error when creating \"STDIN\": Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.colour\""),
    ok("patch widget two -n tenant-a --type merge -p '{\"spec\":{\"size\":2}}'", "widget.test.causeway.dev/two patched"),
    ok("patch widget two -n tenant-a --type json -p '[{\"op\":\"add\",\"path\":\"/spec/color\",\"value\":\"green\"}]'", "widget.test.causeway.dev/two patched"),
    ok("patch widget two -n tenant-a --type merge -p '{\"spec\":{\"size\":2}}'", "widget.test.causeway.dev/two patched (no change)"),
    refused(
        "patch widget two -n tenant-a --type merge -p '{\"spec\":{\"size\":0}}'",
        "The Widget \"two\" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
    ),
    ok("label widget two -n tenant-a of=it", "widget.test.causeway.dev/two labeled"),
    ok("annotate widget two -n tenant-a why=because", "widget.test.causeway.dev/two annotated"),
    ok(
        "patch widget one -n tenant-a --subresource=status --type merge -p '{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}'",
        "widget.test.causeway.dev/one patched",
    ),
    ok("create configmap settings -n tenant-a --from-literal=a=b", "configmap/settings created"),
    ok("patch configmap settings -n tenant-a -p '{\"data\":{\"c\":\"d\"}}'", "configmap/settings patched"),
    ok("get configmap settings -n tenant-a -o jsonpath={.data}", "{\"a\":\"b\",\"c\":\"d\"}"),
    given("apply -f -", ACCESS, "serviceaccount/robot created\nclusterrole.rbac.authorization.k8s.io/widget-view created\nrolebinding.rbac.authorization.k8s.io/robot created"),
    given("apply -f -", ACCESS, "serviceaccount/robot unchanged\nclusterrole.rbac.authorization.k8s.io/widget-view unchanged\nrolebinding.rbac.authorization.k8s.io/robot unchanged"),
    given("create -f -", EVENT, "event/one.1 created"),
];

const LOOKING: &[Case] = &[
    ok(
        "get widgets -n tenant-a",
        "NAME SIZE READY AGE*\none 3 True *\ntwo 2 *",
    ),
    ok(
        "get widgets -n tenant-a -o wide",
        "NAME SIZE READY COLOR AGE*\none 3 True red *\ntwo 2 green *",
    ),
    ok(
        "get wd -A --selector of=it",
        "NAMESPACE NAME SIZE READY AGE*\ntenant-a two 2 *",
    ),
    ok(
        "get widgets -n tenant-a --show-labels",
        "NAME SIZE READY AGE LABELS*\none 3 True * <none>\ntwo 2 * of=it",
    ),
    ok(
        "get widget two -n tenant-a -o yaml",
        "apiVersion: test.causeway.dev/v1\nkind: Widget\nmetadata:\n  annotations:\n    why: because\n...\nspec:\n  color: green\n  size: 2",
    ),
    ok(
        "get widgets -n tenant-a -o name",
        "widget.test.causeway.dev/one\nwidget.test.causeway.dev/two",
    ),
    refused(
        "get widget none -n tenant-a",
        "Error from server (NotFound): widgets.test.causeway.dev \"none\" not found",
    ),
    refused(
        "get gadgets",
        "error: the server doesn't have a resource type \"gadgets\"",
    ),
    ok(
        "describe widget two -n tenant-a",
        "Name:         two\nNamespace:    tenant-a\nLabels:       of=it\nAnnotations:  why: because\nAPI Version:  test.causeway.dev/v1\nKind:         Widget\nMetadata:\n...\nSpec:\n  Color:  green\n  Size:   2\nEvents:   <none>",
    ),
    ok(
        "describe widget one -n tenant-a",
        "...\nStatus:\n  Conditions:\n    Status:  True\n    Type:    Ready\nEvents:      <none>",
    ),
    ok(
        "describe namespace tenant-a",
        "Name:         tenant-a\nLabels:       kubernetes.io/metadata.name=tenant-a\nAnnotations:  <none>\nStatus:       Active\n...",
    ),
    ok(
        "get events -n tenant-a",
        "LAST SEEN TYPE REASON OBJECT MESSAGE*\n* Normal Grown widget/one It has grown.",
    ),
    ok(
        "events -n tenant-a",
        "LAST SEEN TYPE REASON OBJECT MESSAGE*\n* Normal Grown Widget/one It has grown.",
    ),
    ok(
        "explain widget",
        "GROUP:      test.causeway.dev\nKIND:       Widget\nVERSION:    v1\n\nDESCRIPTION:\n    A widget is a thing of some size.\n\nFIELDS:\n  apiVersion\t<string>\n...\n  metadata\t<ObjectMeta>\n...\n  spec\t<Object> -required-\n    What is wanted.\n\n  status\t<Object>\n    What is seen.",
    ),
    ok(
        "explain widget.spec.color",
        "GROUP:      test.causeway.dev\nKIND:       Widget\nVERSION:    v1\n\nFIELD: color <string>\nENUM:\n    red\n    green\n\nDESCRIPTION:\n    What it looks like.",
    ),
    ok(
        "explain configmap.data",
        "KIND:       ConfigMap\nVERSION:    v1\n\nFIELD: data <map[string]string>\n\n\nDESCRIPTION:\n    Data contains the configuration data. Each key must consist of alphanumeric\n...",
    ),
    ok(
        "wait --for=condition=Ready widget/one -n tenant-a --timeout=20s",
        "widget.test.causeway.dev/one condition met",
    ),
    ok(
        "wait --for=create widget/one -n tenant-a --timeout=20s",
        "widget.test.causeway.dev/one condition met",
    ),
    refused(
        "wait --for=condition=Ready widget/two -n tenant-a --timeout=1s",
        "error: timed out waiting for the condition on widgets/two",
    ),
    ok(
        "get configmaps -n tenant-a",
        "NAME DATA AGE*\n...\nsettings 2 *",
    ),
    ok(
        "get serviceaccounts -n tenant-a",
        "NAME SECRETS AGE*\n...\nrobot 0 *",
    ),
    ok(
        "get rolebindings -n tenant-a -o wide",
        "NAME ROLE AGE USERS GROUPS SERVICEACCOUNTS*\nrobot ClusterRole/widget-view * tenant-a/robot",
    ),
    ok(
        "get clusterrole widget-view",
        "NAME CREATED AT*\nwidget-view *",
    ),
    ok("get crd", "NAME CREATED AT*\nwidgets.test.causeway.dev *"),
];

const WHO_MAY: &[Case] = &[
    ok("auth whoami", "ATTRIBUTE VALUE*\nUsername *\n..."),
    ok("auth can-i delete widgets -n tenant-a", "yes"),
    ok(
        "auth can-i list widgets -n tenant-a --as=system:serviceaccount:tenant-a:robot",
        "yes",
    ),
    refused(
        "auth can-i delete widgets -n tenant-a --as=system:serviceaccount:tenant-a:robot",
        "no",
    ),
    ok(
        "auth can-i --list -n tenant-a --as=system:serviceaccount:tenant-a:robot",
        "...\nwidgets.test.causeway.dev [] [] [get list watch]*\n...",
    ),
    ok(
        "get widgets -n tenant-a --as=system:serviceaccount:tenant-a:robot -o name",
        "widget.test.causeway.dev/one\nwidget.test.causeway.dev/two",
    ),
    refused(
        "get widgets -n default --as=system:serviceaccount:tenant-a:robot",
        "Error from server (Forbidden): widgets.test.causeway.dev is forbidden: User \"system:serviceaccount:tenant-a:robot\" cannot list resource \"widgets\" in API group \"test.causeway.dev\" in the namespace \"default\"",
    ),
    refused(
        "delete widget one -n tenant-a --as=jane --as-group=people",
        "Error from server (Forbidden): widgets.test.causeway.dev \"one\" is forbidden: User \"jane\" cannot delete resource \"widgets\" in API group \"test.causeway.dev\" in the namespace \"tenant-a\"",
    ),
];

/// Events, made by one group and seen by both.
const HAPPENING: &[Case] = &[
    given(
        "create -f -",
        EVENTS,
        "node/node1 created\nevent/node1.old created\nevent.events.k8s.io/node1.new created",
    ),
    ok(
        "get events -n default --field-selector involvedObject.kind=Node",
        "LAST SEEN TYPE REASON OBJECT MESSAGE*\n* Normal Ready node/node1 All is well\n* Warning Stuck node/node1 It does not move",
    ),
    ok(
        "get events.events.k8s.io -n default --field-selector regarding.kind=Node",
        "LAST SEEN TYPE REASON OBJECT MESSAGE*\n* Normal Ready node/node1 All is well\n* Warning Stuck node/node1 It does not move",
    ),
    ok(
        "get events.v1.events.k8s.io node1.old -o jsonpath={.note}/{.regarding.name}/{.deprecatedCount}",
        "It does not move/node1/3",
    ),
    ok(
        "get events.v1. node1.new -o jsonpath={.message}/{.involvedObject.name}/{.reportingComponent}",
        "All is well/node1/causeway.dev/controller",
    ),
    ok(
        "events --for node/node1 --types Warning",
        "LAST SEEN TYPE REASON OBJECT MESSAGE*\n* (x3 over *) Warning Stuck Node/node1 It does not move",
    ),
    ok(
        "describe node node1",
        "...\nEvents:\nType Reason Age From Message*\n---- ------ ---- ---- ----*\nNormal Ready * causeway.dev/controller All is well\nWarning Stuck * (x3 over *) causeway It does not move",
    ),
    ok(
        "delete events.events.k8s.io node1.old",
        "event.events.k8s.io \"node1.old\" deleted...",
    ),
    ok(
        "get events --field-selector involvedObject.name=node1 -o name",
        "event/node1.new",
    ),
    ok("delete event node1.new", "event \"node1.new\" deleted..."),
    ok("delete node node1", "node \"node1\" deleted"),
];

const ENDING: &[Case] = &[
    ok(
        "delete widget two -n tenant-a",
        "widget.test.causeway.dev \"two\" deleted...",
    ),
    ok("wait --for=delete widget/two -n tenant-a --timeout=20s", ""),
    ok(
        "delete widgets --all -n tenant-a",
        "widget.test.causeway.dev \"one\" deleted...",
    ),
    ok("create namespace tenant-b", "namespace/tenant-b created"),
    ok(
        "delete namespace tenant-b --timeout=20s",
        "namespace \"tenant-b\" deleted",
    ),
    refused(
        "get namespace tenant-b",
        "Error from server (NotFound): namespaces \"tenant-b\" not found",
    ),
];
