//! What resources are made of (RFC 7643, 4): each attribute with its type and characteristics. Bodies are read by these
//! tables, filters compare by them, and `/Schemas` shows them, so that all three say the same.

use serde_json::{Map, Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttributeType {
    Text,
    Flag,
    Time,
    Reference,
    Binary,
    Complex,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutability {
    ReadWrite,
    ReadOnly,
    /// Taken, shown to nobody, and not kept: nobody signs in with it here.
    WriteOnly,
}

#[derive(Debug)]
pub(super) struct SchemaAttribute {
    pub(super) name: &'static str,
    about: &'static str,
    pub(super) of: AttributeType,
    pub(super) is_multi: bool,
    pub(super) is_required: bool,
    pub(super) is_exact: bool,
    pub(super) is_unique: bool,
    pub(super) mutability: Mutability,
    pub(super) parts: &'static [Self],
    choices: &'static [&'static str],
}

const fn attribute(name: &'static str, of: AttributeType, about: &'static str) -> SchemaAttribute {
    let is_exact = matches!(of, AttributeType::Reference | AttributeType::Binary);
    SchemaAttribute {
        name,
        about,
        of,
        is_multi: false,
        is_required: false,
        is_exact,
        is_unique: false,
        mutability: Mutability::ReadWrite,
        parts: &[],
        choices: &[],
    }
}

const fn text(name: &'static str, about: &'static str) -> SchemaAttribute {
    attribute(name, AttributeType::Text, about)
}

const fn complex(name: &'static str, about: &'static str, parts: &'static [SchemaAttribute]) -> SchemaAttribute {
    SchemaAttribute { parts, ..attribute(name, AttributeType::Complex, about) }
}

const fn several(name: &'static str, about: &'static str, parts: &'static [SchemaAttribute]) -> SchemaAttribute {
    SchemaAttribute { is_multi: true, ..complex(name, about, parts) }
}

impl SchemaAttribute {
    const fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    const fn unique(mut self) -> Self {
        self.is_unique = true;
        self
    }

    const fn exact(mut self) -> Self {
        self.is_exact = true;
        self
    }

    const fn read_only(mut self) -> Self {
        self.mutability = Mutability::ReadOnly;
        self
    }

    const fn one_of(mut self, choices: &'static [&'static str]) -> Self {
        self.choices = choices;
        self
    }

    pub(super) fn part(&self, name: &str) -> Option<&'static Self> {
        find(self.parts, name)
    }

    fn render(&self) -> Value {
        let mutability = match self.mutability {
            Mutability::ReadWrite => "readWrite",
            Mutability::ReadOnly => "readOnly",
            Mutability::WriteOnly => "writeOnly",
        };
        let of = match self.of {
            AttributeType::Text => "string",
            AttributeType::Flag => "boolean",
            AttributeType::Time => "dateTime",
            AttributeType::Reference => "reference",
            AttributeType::Binary => "binary",
            AttributeType::Complex => "complex",
        };
        let mut told = json!({
            "name": self.name,
            "type": of,
            "multiValued": self.is_multi,
            "description": self.about,
            "required": self.is_required,
            "caseExact": self.is_exact,
            "mutability": mutability,
            "returned": if self.mutability == Mutability::WriteOnly { "never" } else { "default" },
            "uniqueness": if self.is_unique { "server" } else { "none" },
        });
        if !self.parts.is_empty() {
            told["subAttributes"] = self.parts.iter().map(Self::render).collect();
        }
        if !self.choices.is_empty() {
            told["canonicalValues"] = json!(self.choices);
        }
        if self.of == AttributeType::Reference {
            told["referenceTypes"] = json!([if self.name == "$ref" { "User" } else { "external" }]);
        }
        told
    }

    /// What the description of the API says of it.
    fn described(&self) -> Value {
        let one = match self.of {
            AttributeType::Flag => json!({"type": ["boolean", "string"]}),
            AttributeType::Complex => json!({"type": "object"}),
            _ => json!({"type": "string"}),
        };
        if self.is_multi { json!({"type": "array", "items": {}}) } else { one }
    }
}

/// Names are compared without regard to case (RFC 7643, 2.1).
pub(super) fn find(all: &'static [SchemaAttribute], name: &str) -> Option<&'static SchemaAttribute> {
    all.iter().find(|attribute| attribute.name.eq_ignore_ascii_case(name))
}

#[derive(Debug)]
pub(super) struct ScimSchema {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    about: &'static str,
    pub(super) attributes: &'static [SchemaAttribute],
}

impl ScimSchema {
    pub(super) fn render(&self, location: &str) -> Value {
        json!({
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Schema"],
            "id": self.id,
            "name": self.name,
            "description": self.about,
            "attributes": self.attributes.iter().map(SchemaAttribute::render).collect::<Vec<_>>(),
            "meta": {"resourceType": "Schema", "location": location},
        })
    }
}

const VALUE: SchemaAttribute = text("value", "The value itself");
const DISPLAY: SchemaAttribute = text("display", "As it is shown to people");
const PRIMARY: SchemaAttribute = attribute("primary", AttributeType::Flag, "Whether it is the preferred one");

static NAME: [SchemaAttribute; 6] = [
    text("formatted", "The whole name, as it is shown"),
    text("familyName", "The last name"),
    text("givenName", "The first name"),
    text("middleName", "Names between the two"),
    text("honorificPrefix", "A title before the name"),
    text("honorificSuffix", "What stands behind the name"),
];
static CONTACT: [SchemaAttribute; 4] =
    [VALUE, DISPLAY, text("type", "What it is for").one_of(&["work", "home", "other"]), PRIMARY];
static IM: [SchemaAttribute; 4] = [VALUE, DISPLAY, text("type", "Which service"), PRIMARY];
static PHOTO: [SchemaAttribute; 4] = [
    attribute("value", AttributeType::Reference, "Where the picture is"),
    DISPLAY,
    text("type", "Of which size").one_of(&["photo", "thumbnail"]),
    PRIMARY,
];
static CERTIFICATE: [SchemaAttribute; 4] =
    [attribute("value", AttributeType::Binary, "DER in base64"), DISPLAY, text("type", "What it is for"), PRIMARY];
static ADDRESS: [SchemaAttribute; 8] = [
    text("formatted", "The whole address, as it is shown"),
    text("streetAddress", "Street and house"),
    text("locality", "Town"),
    text("region", "State or region"),
    text("postalCode", "Postal code"),
    text("country", "Country (ISO 3166-1, two letters)"),
    text("type", "What it is for").one_of(&["work", "home", "other"]),
    PRIMARY,
];
static USER_GROUP: [SchemaAttribute; 4] = [
    text("value", "The group's id").exact().read_only(),
    attribute("$ref", AttributeType::Reference, "Where the group is").read_only(),
    text("display", "The group's name").read_only(),
    text("type", "How they belong to it").read_only(),
];
static ROLE: [SchemaAttribute; 4] = [VALUE, DISPLAY, text("type", "What it is for"), PRIMARY];

pub(super) static USER: ScimSchema = ScimSchema {
    id: "urn:ietf:params:scim:schemas:core:2.0:User",
    name: "User",
    about: "Somebody of the organisation",
    attributes: &[
        text("userName", "What the directory calls them; often an e-mail address").required().unique(),
        complex("name", "The parts of the name", &NAME),
        text("displayName", "The name that is shown"),
        text("nickName", "What friends say"),
        attribute("profileUrl", AttributeType::Reference, "A page about them"),
        text("title", "Their title in the company"),
        text("userType", "What they are to the company"),
        text("preferredLanguage", "As in Accept-Language"),
        text("locale", "How numbers and times are written for them"),
        text("timezone", "Their zone in the IANA database"),
        attribute(
            "active",
            AttributeType::Flag,
            "Whether they may do anything; keys of those who are not open nothing",
        ),
        SchemaAttribute {
            mutability: Mutability::WriteOnly,
            ..text("password", "Taken and not kept: nobody signs in with it")
        },
        several("emails", "E-mail addresses; the primary one is theirs here", &CONTACT),
        several("phoneNumbers", "Telephone numbers", &CONTACT),
        several("ims", "Addresses of instant messages", &IM),
        several("photos", "Pictures of them", &PHOTO),
        several("addresses", "Where they live and work", &ADDRESS),
        several("groups", "Groups that they belong to; changed at the group", &USER_GROUP).read_only(),
        several("entitlements", "None are kept here: only an empty list is taken", &ROLE),
        several("roles", "None are kept here, groups give them: only an empty list is taken", &ROLE),
        several("x509Certificates", "Their certificates", &CERTIFICATE),
    ],
};

static MANAGER: [SchemaAttribute; 3] = [
    text("value", "The manager's id").exact(),
    attribute("$ref", AttributeType::Reference, "Where the manager is"),
    text("displayName", "The manager's name"),
];

pub(super) static ENTERPRISE: ScimSchema = ScimSchema {
    id: "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User",
    name: "EnterpriseUser",
    about: "What a company says of its people",
    attributes: &[
        text("employeeNumber", "Their number in the company"),
        text("costCenter", "Who pays for them"),
        text("organization", "Which company"),
        text("division", "Which division"),
        text("department", "Which department"),
        complex("manager", "Whom they report to", &MANAGER),
    ],
};

static MEMBER: [SchemaAttribute; 4] = [
    text("value", "The user's id").exact(),
    attribute("$ref", AttributeType::Reference, "Where the user is"),
    text("display", "The user's name"),
    text("type", "User").one_of(&["User"]),
];

pub(super) static GROUP: ScimSchema = ScimSchema {
    id: "urn:ietf:params:scim:schemas:core:2.0:Group",
    name: "Group",
    about: "People who belong together",
    attributes: &[
        text("displayName", "The group's name").required().unique(),
        several("members", "Users who belong to it", &MEMBER),
    ],
};

static META: [SchemaAttribute; 5] = [
    text("resourceType", "User or Group").exact().read_only(),
    attribute("created", AttributeType::Time, "When it was made").read_only(),
    attribute("lastModified", AttributeType::Time, "When it was changed last").read_only(),
    attribute("location", AttributeType::Reference, "Where it is").read_only(),
    text("version", "Its entity tag").exact().read_only(),
];

/// The attributes that every resource has (RFC 7643, 3.1).
pub(super) static COMMON: [SchemaAttribute; 4] = [
    SchemaAttribute {
        is_multi: true,
        ..attribute("schemas", AttributeType::Reference, "The schemas that it follows").read_only()
    },
    text("id", "Its id here").exact().unique().read_only(),
    text("externalId", "Its id in the directory").exact(),
    complex("meta", "When it was made and changed", &META).read_only(),
];

#[derive(Debug)]
pub(super) struct ResourceType {
    pub(super) core: &'static ScimSchema,
    pub(super) extensions: &'static [&'static ScimSchema],
    pub(super) endpoint: &'static str,
}

pub(super) static USERS: ResourceType = ResourceType { core: &USER, extensions: &[&ENTERPRISE], endpoint: "/Users" };
pub(super) static GROUPS: ResourceType = ResourceType { core: &GROUP, extensions: &[], endpoint: "/Groups" };

impl ResourceType {
    pub(super) fn schemas(&self) -> impl Iterator<Item = &'static ScimSchema> {
        std::iter::once(self.core).chain(self.extensions.iter().copied())
    }

    /// One that stands at the top of a resource.
    pub(super) fn top(&self, name: &str) -> Option<&'static SchemaAttribute> {
        find(self.core.attributes, name).or_else(|| find(&COMMON, name))
    }

    /// The extension of this name.
    pub(super) fn extension(&self, id: &str) -> Option<&'static ScimSchema> {
        self.extensions.iter().copied().find(|schema| schema.id.eq_ignore_ascii_case(id))
    }

    /// The body that makes or replaces one, for the description of the API.
    fn described(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("schemas".to_owned(), json!({"type": "array", "items": {"type": "string"}}));
        fields.insert("externalId".to_owned(), json!({"type": "string"}));
        let written = self.core.attributes.iter().filter(|a| a.mutability != Mutability::ReadOnly);
        fields.extend(written.map(|a| (a.name.to_owned(), a.described())));
        fields.extend(self.extensions.iter().map(|schema| (schema.id.to_owned(), json!({"type": "object"}))));
        let required = self.core.attributes.iter().filter(|a| a.is_required).map(|a| a.name);
        let required: Vec<&str> = std::iter::once("schemas").chain(required).collect();
        json!({"type": "object", "properties": fields, "required": required})
    }

    pub(super) fn render(&self, base: &str) -> Value {
        let extensions = self.extensions.iter().map(|schema| json!({"schema": schema.id, "required": false}));
        let name = self.core.name;
        json!({
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ResourceType"],
            "id": name,
            "name": name,
            "description": self.core.about,
            "endpoint": self.endpoint,
            "schema": self.core.id,
            "schemaExtensions": extensions.collect::<Vec<_>>(),
            "meta": {"resourceType": "ResourceType", "location": format!("{base}/ResourceTypes/{name}")},
        })
    }
}

pub(super) fn user_body() -> Value {
    USERS.described()
}

pub(super) fn group_body() -> Value {
    GROUPS.described()
}

pub(super) fn patch_body() -> Value {
    let operation =
        json!({"type": "object", "properties": {"op": {"type": "string"}, "path": {"type": "string"}, "value": {}}});
    json!({
        "type": "object",
        "properties": {"schemas": {"type": "array", "items": {"type": "string"}}, "Operations": {"type": "array", "items": operation}},
        "required": ["schemas", "Operations"],
    })
}
