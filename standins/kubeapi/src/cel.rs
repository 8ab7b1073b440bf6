//! CEL: the rules of a CRD (`x-kubernetes-validations`) and the match conditions of webhooks.
//!
//! [`Rule`]s are read with their schema ([`crate::schema`]) and judged by [`check`] and
//! [`definition`] when the CRD is written; [`walk`] evaluates them on every write. Parsing, operators and the Kubernetes function
//! library are kube-cel's; everything that decides between refusal and acceptance is here. Must
//! stay true: an expression that cannot be evaluated is refused where it is written; one that fails
//! when it is evaluated refuses the object; none is ever silently true.

mod check;
mod definition;
mod value;
mod walk;

use std::sync::Arc;

use kube_cel::{
    KubeCelExt,
    cel::{Context, Value as Cel, objects::OptionalValue, parser::Expression, parser::Parser},
};
use serde_json::Value;

pub(crate) use definition::definition_faults;
pub(crate) use walk::run;

use crate::schema::Schema;

/// One entry of `x-kubernetes-validations`.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    text: String,
    message: String,
    reason: String,
    /// `.a.b` or empty: the field that a refusal names, under the rule's own.
    field: String,
    /// Evaluated on new objects too, `oldSelf` being an optional.
    optional_old: bool,
    uses_old: bool,
    expression: Arc<Expression>,
    message_expression: Option<Arc<Expression>>,
}

/// An expression that cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CelError {
    /// Not CEL, or beyond what is evaluated here.
    #[error("{0}")]
    Compile(String),
    /// It gives the wrong type.
    #[error("cel expression must evaluate to a bool")]
    NotBool,
    /// The same, of a message.
    #[error("messageExpression must evaluate to a string")]
    NotString,
}

impl Rule {
    /// Reads an entry that stands at a schema.
    pub(crate) fn read(json: &Value, schema: &Schema, root: bool) -> Result<Self, CelError> {
        let text = |field: &str| {
            json.get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        let optional_old = json.get("optionalOldSelf").and_then(Value::as_bool) == Some(true);
        let scope = check::Scope::of_rule(schema, root, optional_old);
        let rule = text("rule");
        let expression = check::compile(&rule, &scope, check::Wanted::Bool)
            .map_err(|error| error.within("compilation failed"))?;
        let message_expression = text("messageExpression");
        let message_expression = (!message_expression.is_empty())
            .then(|| {
                check::compile(&message_expression, &scope, check::Wanted::String)
                    .map_err(|error| error.within("messageExpression compilation failed"))
            })
            .transpose()?;
        let uses_old = [Some(&expression), message_expression.as_ref()]
            .into_iter()
            .flatten()
            .next()
            .is_some_and(|expression| expression.references().has_variable("oldSelf"));
        Ok(Self {
            text: rule,
            message: text("message"),
            reason: text("reason"),
            field: text("fieldPath"),
            optional_old,
            uses_old,
            expression: Arc::new(expression),
            message_expression: message_expression.map(Arc::new),
        })
    }
}

impl CelError {
    fn within(self, what: &str) -> Self {
        match self {
            Self::Compile(why) => Self::Compile(format!("{what}: {why}")),
            other => other,
        }
    }
}

/// A condition over the variables of an admission request.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    text: String,
    expression: Arc<Expression>,
}

impl Condition {
    /// Reads an expression over `object`, `oldObject` and `request`.
    pub(crate) fn read(text: &str) -> Result<Self, CelError> {
        let scope = check::Scope::of_condition();
        let expression = check::compile(text, &scope, check::Wanted::Bool)
            .map_err(|error| error.within("compilation failed"))?;
        Ok(Self {
            text: text.to_owned(),
            expression: Arc::new(expression),
        })
    }

    /// Whether it holds; otherwise why that cannot be said.
    pub(crate) fn holds(&self, variables: &[(&str, &Value)]) -> Result<bool, String> {
        let variables: Vec<_> = variables
            .iter()
            .map(|(name, json)| (*name, value::free(json)))
            .collect();
        match evaluate(&self.expression, variables) {
            Ok(Cel::Bool(holds)) => Ok(holds),
            Ok(_) => Err(format!("cel expression '{}' is no bool", self.text)),
            Err(why) => Err(format!(
                "expression '{}' resulted in error: {why}",
                self.text
            )),
        }
    }
}

thread_local! {
    /// Every function that rules may call; building it for each rule would cost more than the rule.
    static FUNCTIONS: Context<'static> = functions();
}

/// The types that `type` tells apart, by the names that expressions have for them.
const TYPES: [&str; 9] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "uint",
];

/// The Kubernetes library, and `type`, which it lacks.
fn functions() -> Context<'static> {
    let mut context = Context::default().with_all();
    for name in TYPES {
        context.add_variable_from_value(name, format!("type {name}"));
    }
    context.add_function("type", |value: Cel| {
        let name = match value {
            Cel::Bool(_) => "bool",
            Cel::Bytes(_) => "bytes",
            Cel::Float(_) => "double",
            Cel::Int(_) => "int",
            Cel::List(_) => "list",
            Cel::Map(_) => "map",
            Cel::Null => "null_type",
            Cel::String(_) => "string",
            Cel::UInt(_) => "uint",
            _ => "other",
        };
        format!("type {name}")
    });
    context
}

fn parse(text: &str) -> Result<Expression, String> {
    Parser::new()
        .enable_optional_syntax(true)
        .parse(text)
        .map_err(|errors| errors.to_string())
}

/// Evaluates an expression; the error in the words of the real server's evaluator.
fn evaluate(expression: &Expression, variables: Vec<(&str, Cel)>) -> Result<Cel, String> {
    FUNCTIONS.with(|functions| {
        let mut context = functions.new_inner_scope();
        for (name, value) in variables {
            context.add_variable_from_value(name, value);
        }
        Cel::resolve(expression, &context).map_err(|error| match error {
            kube_cel::cel::ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
            kube_cel::cel::ExecutionError::NoSuchOverload => "no such overload".into(),
            kube_cel::cel::ExecutionError::DivisionByZero(_) => "division by zero".into(),
            kube_cel::cel::ExecutionError::RemainderByZero(_) => "modulus by zero".into(),
            kube_cel::cel::ExecutionError::Overflow(..) => "integer overflow".into(),
            kube_cel::cel::ExecutionError::FunctionError { message, .. } => message,
            other => other.to_string(),
        })
    })
}

/// Whether a function is known, by its full name (`math.greatest`) or as a method.
fn knows_function(name: &str) -> bool {
    use kube_cel::cel::ExecutionError;
    let Ok(call) = parse(&format!("{name}()")) else {
        return false;
    };
    FUNCTIONS.with(|functions| {
        let context = functions.new_inner_scope();
        !matches!(
            Cel::resolve(&call, &context),
            Err(ExecutionError::UndeclaredReference(_))
        )
    })
}

fn optional(value: Option<Cel>) -> Cel {
    Cel::Opaque(Arc::new(match value {
        Some(value) => OptionalValue::of(value),
        None => OptionalValue::none(),
    }))
}
